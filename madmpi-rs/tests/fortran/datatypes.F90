! np: 2 4
! Datatypes: every constructor, addresses, packing, kinds by digits and by size, what a type was made of.
#include "interface.h"
program datatypes
  USE_MPI
  implicit none
  INCLUDE_MPI
  type particle
    sequence
    double precision :: place(3)
    integer :: kind
    logical :: alive
  end type
  integer :: rank, ierr, at, count, combiner, integers, addresses, types, position, bytes, found(6)
  integer(kind=MPI_ADDRESS_KIND) :: lb, extent, places(3), base
  integer :: matrix(4, 5), back(4, 5), vector(20), lengths(3)
  character(len=64) :: packed
  character(len=MPI_MAX_OBJECT_NAME) :: name
  type(particle) :: one, two(2)
  double precision :: x, y
  integer, parameter :: r = selected_real_kind(10, 100), i = selected_int_kind(12)
  real(kind=r) :: exact
  integer(kind=i) :: long
  DATATYPE :: made, other, members(3), made_of(3)
  STATUS(st)
  COMM :: pair

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  ! Processes work in pairs, and the first pair prints.
  call MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, pair, ierr)
  if (rank > 1) open (6, file='/dev/null')
  call MPI_Comm_rank(pair, rank, ierr)
  matrix = reshape((/ (at, at = 1, 20) /), (/ 4, 5 /))

  ! A row, which lies at a stride of a column's length.
  call MPI_Type_vector(5, 1, 4, MPI_INTEGER, made, ierr)
  call MPI_Type_commit(made, ierr)
  call pass(matrix(2, 1), 1, made, vector, 5, MPI_INTEGER)
  call show('vector', vector(1:5))
  call MPI_Type_get_extent(made, lb, extent, ierr)
  call MPI_Type_size(made, bytes, ierr)
  call show('extent', (/ int(lb), int(extent), bytes /))
  call MPI_Type_create_resized(made, 0_MPI_ADDRESS_KIND, 4_MPI_ADDRESS_KIND, other, ierr)
  call MPI_Type_commit(other, ierr)
  call pass(matrix, 2, other, vector, 10, MPI_INTEGER)
  call show('rows', vector(1:10))
  call MPI_Type_get_envelope(other, integers, addresses, types, combiner, ierr)
  call show('envelope', (/ integers, addresses, types, merge(1, 0, combiner == MPI_COMBINER_RESIZED) /))
  call MPI_Type_get_contents(other, 1, 2, 1, found, places, made_of, ierr)
  call show('contents', (/ int(places(1)), int(places(2)) /))
  call MPI_Type_free(made_of(1), ierr)
  call MPI_Type_free(other, ierr)
  call MPI_Type_free(made, ierr)
  call show('freed', (/ merge(1, 0, made == MPI_DATATYPE_NULL) /))

  call MPI_Type_create_subarray(2, (/ 4, 5 /), (/ 2, 3 /), (/ 1, 2 /), MPI_ORDER_FORTRAN, MPI_INTEGER, made, ierr)
  call MPI_Type_commit(made, ierr)
  call pass(matrix, 1, made, vector, 6, MPI_INTEGER)
  call show('subarray', vector(1:6))
  back = 0
  call pass(vector, 6, MPI_INTEGER, back, 1, made)
  call show('and back', (/ back(2, 3), back(3, 5), back(1, 1) /))
  call MPI_Type_free(made, ierr)
  call MPI_Type_create_darray(2, 1, 2, (/ 4, 5 /), (/ MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_NONE /), &
    (/ MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG /), (/ 2, 1 /), MPI_ORDER_FORTRAN, MPI_INTEGER, made, ierr)
  call MPI_Type_commit(made, ierr)
  call pass(matrix, 1, made, vector, 10, MPI_INTEGER)
  call show('darray', vector(1:10))
  call MPI_Type_free(made, ierr)
  call MPI_Type_indexed(2, (/ 2, 1 /), (/ 3, 0 /), MPI_INTEGER, made, ierr)
  call MPI_Type_commit(made, ierr)
  call pass(matrix, 1, made, vector, 3, MPI_INTEGER)
  call show('indexed', vector(1:3))
  call MPI_Type_free(made, ierr)
  call MPI_Type_create_indexed_block(2, 2, (/ 8, 4 /), MPI_INTEGER, made, ierr)
  call MPI_Type_commit(made, ierr)
  call pass(matrix, 1, made, vector, 4, MPI_INTEGER)
  call show('indexed block', vector(1:4))
  call MPI_Type_free(made, ierr)
  call MPI_Type_contiguous(2, MPI_INTEGER, other, ierr)
  call MPI_Type_create_hvector(2, 1, 40_MPI_ADDRESS_KIND, other, made, ierr)
  call MPI_Type_commit(made, ierr)
  call pass(matrix, 1, made, vector, 4, MPI_INTEGER)
  call show('hvector', vector(1:4))
  call MPI_Type_free(made, ierr)
  call MPI_Type_free(other, ierr)

  ! A type of the program, by addresses.
  one = particle((/ 1d0, 2d0, 3d0 /) * (rank + 1), 7 + rank, rank == 0)
  call MPI_Get_address(one%place, places(1), ierr)
  call MPI_Get_address(one%kind, places(2), ierr)
  call MPI_Get_address(one%alive, places(3), ierr)
  base = places(1)
  do at = 1, 3
#if INTERFACE == 77
    places(at) = places(at) - base
#else
    places(at) = MPI_Aint_diff(places(at), base)
#endif
  end do
  lengths = (/ 3, 1, 1 /)
  members(1) = MPI_DOUBLE_PRECISION
  members(2) = MPI_INTEGER
  members(3) = MPI_LOGICAL
  call MPI_Type_create_struct(3, lengths, places, members, made, ierr)
  call MPI_Type_commit(made, ierr)
  two(1) = one
  two(2) = one
  if (rank == 0) call MPI_Send(two, 2, made, 1, 1, pair, ierr)
  if (rank == 1) then
    call MPI_Recv(two, 2, made, 0, 1, pair, st, ierr)
    call MPI_Get_count(st, made, count, ierr)
    print '(a,2i3,3f5.1,l2)', 'struct', count, two(2)%kind, two(2)%place, two(2)%alive
  end if
  call MPI_Type_get_contents(made, 4, 3, 3, found, places, made_of, ierr)
  call show('made of', (/ found(1:4), merge(1, 0, made_of(3) == MPI_LOGICAL) /))
  call MPI_Type_set_name(made, 'particle', ierr)
  call MPI_Type_get_name(made, name, count, ierr)
  if (rank == 0) print '(3a,i0)', 'name [', name(1:10), '] ', count
  call MPI_Type_free(made, ierr)

  ! Addresses from the bottom of memory.
  x = 1.5d0 + rank
  y = 0
  call MPI_Get_address(x, places(1), ierr)
  call MPI_Type_create_hindexed(1, (/ 1 /), places, MPI_DOUBLE_PRECISION, made, ierr)
  call MPI_Type_commit(made, ierr)
  call MPI_Sendrecv(MPI_BOTTOM, 1, made, 1 - rank, 2, y, 1, MPI_DOUBLE_PRECISION, 1 - rank, 2, pair, st, ierr)
  if (rank == 0) print '(a,f5.2)', 'from the bottom', y
  call MPI_Type_free(made, ierr)

  position = 0
  call MPI_Pack(rank + 5, 1, MPI_INTEGER, packed, 64, position, pair, ierr)
  call MPI_Pack((/ 1.5, 2.5 /), 2, MPI_REAL, packed, 64, position, pair, ierr)
  call MPI_Pack('text', 4, MPI_CHARACTER, packed, 64, position, pair, ierr)
  if (rank == 0) call MPI_Send(packed, position, MPI_PACKED, 1, 3, pair, ierr)
  if (rank == 1) then
    call MPI_Recv(packed, 64, MPI_PACKED, 0, 3, pair, st, ierr)
    call unpack(packed)
  end if
  places(1) = 0
  call MPI_Pack_external('external32', (/ 1, 256 /), 2, MPI_INTEGER, packed, 64_MPI_ADDRESS_KIND, places(1), ierr)
  call show('external', (/ int(places(1)), (ichar(packed(at:at)), at = 1, 8) /))

  call MPI_Type_create_f90_real(10, 100, made, ierr)
  exact = 0
  call MPI_Allreduce(real(rank + 1, r), exact, 1, made, MPI_SUM, pair, ierr)
  if (rank == 0) print '(a,f5.1)', 'real of 10 digits', exact
  call MPI_Type_create_f90_integer(12, made, ierr)
  call MPI_Type_size(made, bytes, ierr)
  long = 0
  call MPI_Allreduce(10_i**11 + rank, long, 1, made, MPI_SUM, pair, ierr)
  if (rank == 0) print '(a,i0,1x,i0)', 'integer of 12 digits ', bytes, long
  call MPI_Type_create_f90_complex(6, 30, made, ierr)
  call MPI_Type_size(made, bytes, ierr)
  call show('complex of 6 digits', (/ bytes /))
  call MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, made, ierr)
  call MPI_Type_size(made, bytes, ierr)
  call show('real of 8 bytes', (/ bytes /))
#if INTERFACE != 77
  call MPI_Sizeof(exact, bytes, ierr)
  call MPI_Sizeof(two(1)%kind, count, ierr)
  call show('sizes', (/ bytes, count /))
#else
  call show('sizes', (/ 8, 4 /))
#endif
  call sizes()
  call MPI_Comm_free(pair, ierr)
  call MPI_Finalize(ierr)

contains

  ! The other rank's data, as data of another type.
  subroutine pass(from, sent, sent_type, to, received, received_type)
    integer, intent(in) :: from(*), sent, received
    DATATYPE, intent(in) :: sent_type, received_type
    integer, intent(inout) :: to(*)
    call MPI_Sendrecv(from, sent, sent_type, 1 - rank, 4, to, received, received_type, 1 - rank, 4, pair, &
      MPI_STATUS_IGNORE, ierr)
  end subroutine

  subroutine unpack(from)
    character(len=*), intent(in) :: from
    integer :: number
    real :: numbers(2)
    character(len=4) :: text
    position = 0
    call MPI_Unpack(from, 64, position, number, 1, MPI_INTEGER, pair, ierr)
    call MPI_Unpack(from, 64, position, numbers, 2, MPI_REAL, pair, ierr)
    call MPI_Unpack(from, 64, position, text, 4, MPI_CHARACTER, pair, ierr)
    print '(a,i3,2f5.1,1x,a)', 'unpacked', number, numbers, text
  end subroutine

  subroutine sizes()
    DATATYPE :: all(17)
    integer :: bytes(17), at
    all = (/ MPI_INTEGER, MPI_REAL, MPI_DOUBLE_PRECISION, MPI_COMPLEX, MPI_DOUBLE_COMPLEX, MPI_LOGICAL, MPI_CHARACTER, &
      MPI_2INTEGER, MPI_2REAL, MPI_2DOUBLE_PRECISION, MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER8, MPI_REAL4, MPI_REAL8, &
      MPI_BYTE, MPI_AINT /)
    do at = 1, 17
      call MPI_Type_size(all(at), bytes(at), ierr)
    end do
    call show('bytes', bytes)
  end subroutine

  subroutine show(what, values)
    character(len=*), intent(in) :: what
    integer, intent(in) :: values(:)
    if (rank == 0) print '(a,20(1x,i0))', what, values
  end subroutine
end program
