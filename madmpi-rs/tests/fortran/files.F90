! np: 4, peers: mpich77 mpich90
! Files: views, own and shared pointers, accesses with requests, split ones, errors.
#include "interface.h"
program files
  USE_MPI
  implicit none
  INCLUDE_MPI
  integer :: rank, length, ierr, class, values(100), back(100), count, amode, i
  integer(kind=MPI_OFFSET_KIND) :: offset, where
  integer(kind=MPI_ADDRESS_KIND) :: extent
  character(len=200) :: name, folder
  character(len=MPI_MAX_DATAREP_STRING) :: representation
  logical :: flag
  FILE_HANDLE :: file
  DATATYPE :: block, part, etype, filetype
  REQUEST :: request
  INFO :: hints
  STATUS(info)

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call get_environment_variable('TMPDIR', folder, length)
  if (length == 0) folder = '/tmp'
  if (rank == 0) then
    call system_clock(i)
    write (name, '(a,a,i0)') trim(folder), '/mpi-fortran-files-', i
  end if
  call MPI_Bcast(name, len(name), MPI_CHARACTER, 0, MPI_COMM_WORLD, ierr)

  call MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, file, ierr)
  call MPI_Error_class(ierr, class, ierr)
  call show('no such file', (/ merge(1, 0, class == MPI_ERR_NO_SUCH_FILE) /))
  amode = ior(MPI_MODE_CREATE, ior(MPI_MODE_RDWR, MPI_MODE_DELETE_ON_CLOSE))
  call MPI_File_open(MPI_COMM_WORLD, name, amode, MPI_INFO_NULL, file, ierr)
  call MPI_File_get_amode(file, count, ierr)
  call show('open', (/ merge(1, 0, ierr == MPI_SUCCESS .and. count == amode) /))

  values = (/ (1000 * rank + i, i = 1, 100) /)
  call MPI_Type_contiguous(5, MPI_INTEGER, block, ierr)
  extent = 80
  where = 0
  call MPI_Type_create_resized(block, 0_MPI_ADDRESS_KIND, extent, part, ierr)
  call MPI_Type_commit(part, ierr)
  offset = 20 * rank
  call MPI_File_set_view(file, offset, MPI_INTEGER, part, 'native', MPI_INFO_NULL, ierr)
  call MPI_File_get_view(file, where, etype, filetype, representation, ierr)
  call show('view', (/ merge(1, 0, where == offset .and. etype == MPI_INTEGER .and. representation == 'native') /))
  call MPI_File_write_all(file, values, 100, MPI_INTEGER, info, ierr)
  call MPI_Get_count(info, MPI_INTEGER, count, ierr)
  call MPI_File_get_position(file, where, ierr)
  call show('write_all', (/ count, int(where) /))
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  offset = 7
  call MPI_File_get_byte_offset(file, offset, where, ierr)
  call show('byte offset', (/ int(where) /))
  back = -1
  call MPI_File_iread_at(file, offset, back, 10, MPI_INTEGER, request, ierr)
  call MPI_Wait(request, info, ierr)
  call MPI_Get_count(info, MPI_INTEGER, count, ierr)
  call show('iread_at', (/ count, back(1:11) /))
  offset = 0
  call MPI_File_read_at_all_begin(file, offset, back, 100, MPI_INTEGER, ierr)
  call MPI_File_read_at_all_end(file, back, info, ierr)
  call show('split', (/ merge(1, 0, all(back == values)) /))

  offset = 0
  call MPI_File_set_view(file, offset, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL, ierr)
  call MPI_File_seek_shared(file, 10_MPI_OFFSET_KIND, MPI_SEEK_SET, ierr)
  call MPI_File_write_ordered(file, values, 2, MPI_INTEGER, info, ierr)
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  call MPI_File_get_position_shared(file, where, ierr)
  call MPI_File_seek(file, 10_MPI_OFFSET_KIND, MPI_SEEK_SET, ierr)
  call MPI_File_read(file, back, 8, MPI_INTEGER, info, ierr)
  call show('ordered', (/ int(where), back(1:8) /))
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  call MPI_File_set_size(file, 1000_MPI_OFFSET_KIND, ierr)
  call MPI_File_get_size(file, where, ierr)
  call MPI_File_set_atomicity(file, .true., ierr)
  call MPI_File_get_atomicity(file, flag, ierr)
  call show('size', (/ int(where), merge(1, 0, flag) /))
  call MPI_File_get_type_extent(file, MPI_DOUBLE_PRECISION, extent, ierr)
  call show('extent', (/ int(extent) /))
  call MPI_File_get_info(file, hints, ierr)
  call MPI_Info_free(hints, ierr)
  call MPI_File_close(file, ierr)
  call show('close', (/ merge(1, 0, file == MPI_FILE_NULL) /))
  call MPI_Type_free(part, ierr)
  call MPI_Type_free(block, ierr)
  call MPI_Finalize(ierr)
contains
  subroutine show(what, numbers)
    character(len=*), intent(in) :: what
    integer, intent(in) :: numbers(:)
    if (rank == 0) print '(a,20i7)', what, numbers
  end subroutine
end program
