! np: 2 4
! Messages: modes, requests, probes, buffers of every type, sections of arrays, places that calls know by their address.
#include "interface.h"
program p2p
  USE_MPI
  implicit none
  INCLUDE_MPI
  integer :: rank, other, ierr, count, at, number, numbers(12), grid(4, 3)
  logical :: flag, truth(3)
  character(len=7) :: word
  character(len=4) :: words(2)
  real :: x
  double precision :: dots(5)
  complex :: z(2)
  integer, allocatable :: buffer(:)
  STATUS(st)
  REQUEST :: request
  MESSAGE :: handle
  COMM :: pair

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  ! Processes work in pairs, and the first pair prints.
  call MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, pair, ierr)
  if (rank > 1) open (6, file='/dev/null')
  call MPI_Comm_rank(pair, rank, ierr)
  other = 1 - rank
  if (rank == 0) then
    call MPI_Send(42, 1, MPI_INTEGER, 1, 1, pair, ierr)
    call MPI_Ssend('seven c', 7, MPI_CHARACTER, 1, 2, pair, ierr)
    call MPI_Send((/ 1d0, 2d0, 3d0 /), 3, MPI_DOUBLE_PRECISION, 1, 3, pair, ierr)
    call MPI_Send((/ .true., .false., .true. /), 3, MPI_LOGICAL, 1, 4, pair, ierr)
    call MPI_Send((/ (1.0, -2.0), (3.5, 0.25) /), 2, MPI_COMPLEX, 1, 5, pair, ierr)
    words = (/ 'ab  ', 'cdef' /)
    call MPI_Send(words, 8, MPI_CHARACTER, 1, 6, pair, ierr)
    grid = reshape((/ (at, at = 1, 12) /), (/ 4, 3 /))
    ! A section that does not lie in one piece: a blocking call gets a copy.
    call MPI_Send(grid(2, :), 3, MPI_INTEGER, 1, 7, pair, ierr)
    allocate(buffer(1000))
    call MPI_Buffer_attach(buffer, 4000, ierr)
    call MPI_Bsend(2.5, 1, MPI_REAL, 1, 8, pair, ierr)
    call detach(count)
    print '(a,i0)', 'detached bytes: ', count
    call MPI_Send(5, 1, MPI_INTEGER, 1, 9, pair, ierr)
    call MPI_Send((/ 6, 7 /), 2, MPI_INTEGER, 1, 10, pair, ierr)
  else
    call MPI_Recv(number, 1, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, pair, st, ierr)
    print '(a,i0,a,i0,a,i0)', 'number ', number, ' from ', SOURCE_OF(st), ' tag ', TAG_OF(st)
    call MPI_Recv(word, 7, MPI_CHARACTER, 0, 2, pair, MPI_STATUS_IGNORE, ierr)
    print '(3a)', 'word [', word, ']'
    call MPI_Recv(dots, 5, MPI_DOUBLE_PRECISION, 0, 3, pair, st, ierr)
    call MPI_Get_count(st, MPI_DOUBLE_PRECISION, count, ierr)
    print '(a,i0,3f6.2)', 'doubles ', count, dots(1:3)
    call MPI_Get_elements(st, MPI_DOUBLE_PRECISION, count, ierr)
    call MPI_Test_cancelled(st, flag, ierr)
    print '(a,i0,a,l1)', 'elements ', count, ' cancelled ', flag
    call MPI_Recv(truth, 3, MPI_LOGICAL, 0, 4, pair, st, ierr)
    print '(a,3l2)', 'truth', truth
    call MPI_Recv(z, 2, MPI_COMPLEX, 0, 5, pair, st, ierr)
    print '(a,4f6.2)', 'complex', z
    call MPI_Recv(words, 8, MPI_CHARACTER, 0, 6, pair, st, ierr)
    print '(5a)', 'words [', words(1), '|', words(2), ']'
    grid = 0
    call MPI_Recv(grid(3, :), 3, MPI_INTEGER, 0, 7, pair, st, ierr)
    print '(a,12i3)', 'grid', grid
    call MPI_Recv(x, 1, MPI_REAL, 0, 8, pair, MPI_STATUS_IGNORE, ierr)
    print '(a,f4.1)', 'buffered', x
    call MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, pair, st, ierr)
    print '(a,i0)', 'probed tag ', TAG_OF(st)
    flag = .false.
    do while (.not. flag)
      call MPI_Iprobe(0, 9, pair, flag, MPI_STATUS_IGNORE, ierr)
    end do
    call MPI_Recv(number, 1, MPI_INTEGER, 0, 9, pair, MPI_STATUS_IGNORE, ierr)
    call MPI_Mprobe(0, 10, pair, handle, st, ierr)
    call MPI_Get_count(st, MPI_INTEGER, count, ierr)
    call MPI_Mrecv(numbers, count, MPI_INTEGER, handle, st, ierr)
    print '(a,l1,3i3)', 'matched ', handle == MPI_MESSAGE_NULL, count, numbers(1:2)
  end if

  number = rank + 10
  call MPI_Sendrecv(number, 1, MPI_INTEGER, other, 11, at, 1, MPI_INTEGER, other, 11, pair, st, ierr)
  call MPI_Sendrecv_replace(number, 1, MPI_INTEGER, other, 12, other, 12, pair, st, ierr)
  if (rank == 0) print '(a,2i3)', 'exchanged', at, number
  call MPI_Recv(number, 1, MPI_INTEGER, MPI_PROC_NULL, 1, pair, st, ierr)
  if (rank == 0) print '(a,l1,1x,l1)', 'no process ', SOURCE_OF(st) == MPI_PROC_NULL, TAG_OF(st) == MPI_ANY_TAG

  ! What the compiler keeps in a register across a wait would be the old value.
  number = -1
  call MPI_Irecv(number, 1, MPI_INTEGER, other, 13, pair, request, ierr)
  call MPI_Send(rank + 70, 1, MPI_INTEGER, other, 13, pair, ierr)
  call MPI_Wait(request, st, ierr)
  if (rank == 0) print '(a,i0,1x,l1)', 'waited ', number, request == MPI_REQUEST_NULL

  call MPI_Irecv(numbers, 12, MPI_INTEGER, other, 99, pair, request, ierr)
  call cancel(request)
  call MPI_Wait(request, st, ierr)
  call MPI_Test_cancelled(st, flag, ierr)
  if (rank == 0) print '(a,l1)', 'cancelled ', flag
  ! The other process does not go away while a receive from it is posted.
  call MPI_Barrier(pair, ierr)
  call MPI_Comm_free(pair, ierr)
  call MPI_Finalize(ierr)
  call MPI_Finalized(flag, ierr)
  if (rank == 0) print '(a,l1)', 'finalized ', flag

contains

  ! To cancel leaves the handle as it is.
  subroutine cancel(given)
    REQUEST, intent(in) :: given
    integer :: code
    call MPI_Cancel(given, code)
  end subroutine

  ! mpi_f08 gives the address of the buffer, the others have no type for it.
  subroutine detach(size)
    use, intrinsic :: iso_c_binding
    integer, intent(out) :: size
#if INTERFACE == 8
    type(c_ptr) :: address
    call MPI_Buffer_detach(address, size)
#else
    integer :: address(1), ierr
    call MPI_Buffer_detach(address, size, ierr)
#endif
  end subroutine
end program
