! np: 2 3 4
! Collectives of every kind: types of Fortran with their operators, in place, non-blocking.
#include "interface.h"
program collectives
  USE_MPI
  implicit none
  INCLUDE_MPI
  integer :: rank, size, ierr, at, number, sum, numbers(10), gathered(40), pair(2), best(2)
  integer :: last, total_count
  integer, allocatable :: counts(:), displs(:), starts(:), same(:), blocks(:), sent_at(:), got_at(:)
  logical :: truth, all_true
  real :: x(2), total(2)
  double precision :: dots(3), most(3), dpair(2), dbest(2)
  complex :: z, product
  double complex :: w, wsum
  integer(kind=8) :: large, larger
  character(len=5) :: word
  character(len=2) :: letters(4)
  DATATYPE :: types(4)
  REQUEST :: request, two(2)

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierr)

  last = size - 1
  ! The process of rank r has r + 1 elements, at starts(r + 1) or, from behind, at displs(r + 1). `same`: all have as many.
  allocate(counts(size), displs(size), starts(size), same(size), blocks(size), sent_at(size), got_at(size))
  counts = (/ (at, at = 1, size) /)
  starts = (/ (at * (at - 1) / 2, at = 1, size) /)
  total_count = sum_of(counts)
  displs = total_count - starts - counts
  same = rank + 1
  blocks = (/ (at * (rank + 1), at = 0, last) /)
  sent_at = 4 * starts
  got_at = 4 * blocks

  word = '?'
  if (rank == 1) word = 'hello'
  call MPI_Bcast(word, 5, MPI_CHARACTER, 1, MPI_COMM_WORLD, ierr)
  call say('bcast '//word)

  letters = '--'
  call MPI_Gather(achar(97 + rank)//achar(65 + rank), 2, MPI_CHARACTER, letters, 2, MPI_CHARACTER, 0, MPI_COMM_WORLD, ierr)
  if (rank == 0) print '(8a)', 'gather ', letters(1:size)

  numbers = rank + 1
  gathered = 0
  call MPI_Gatherv(numbers, rank + 1, MPI_INTEGER, gathered, counts, displs, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
  call show('gatherv', gathered(1:total_count))
  call MPI_Allgatherv(numbers, rank + 1, MPI_INTEGER, gathered, counts, displs, MPI_INTEGER, MPI_COMM_WORLD, ierr)
  if (rank == last) print '(a,10(1x,i0))', 'allgatherv', gathered(1:total_count)
  call MPI_Allgather(rank * 10, 1, MPI_INTEGER, gathered, 1, MPI_INTEGER, MPI_COMM_WORLD, ierr)
  call show('allgather', gathered(1:size))
  call MPI_Scatter((/ 7, 8, 9, 10 /), 1, MPI_INTEGER, number, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
  if (number /= 7 + rank) print *, 'scatter', number
  gathered(1:10) = (/ (at, at = 1, 10) /)
  call MPI_Scatterv(gathered, counts, starts, MPI_INTEGER, numbers, rank + 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
  if (rank == last) print '(a,10(1x,i0))', 'scatterv', numbers(1:size)

  numbers(1:4) = (/ 10, 20, 30, 40 /) + rank
  call MPI_Alltoall(numbers, 1, MPI_INTEGER, gathered, 1, MPI_INTEGER, MPI_COMM_WORLD, ierr)
  call show('alltoall', gathered(1:size))
  numbers = (/ (100 * rank + at, at = 1, 10) /)
  call MPI_Alltoallv(numbers, counts, starts, MPI_INTEGER, gathered, same, blocks, MPI_INTEGER, MPI_COMM_WORLD, ierr)
  if (rank == last) print '(a,16(1x,i0))', 'alltoallv', gathered(1:size * size)
  types = MPI_INTEGER
  gathered = 0
  call MPI_Alltoallw(numbers, counts, sent_at, types, gathered, same, got_at, types, MPI_COMM_WORLD, ierr)
  if (rank == last) print '(a,16(1x,i0))', 'alltoallw', gathered(1:size * size)

  call MPI_Reduce(rank + 1, sum, 1, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD, ierr)
  call show('reduce', (/ sum /))
  x = (/ 0.5, 1.5 /) * (rank + 1)
  call MPI_Allreduce(x, total, 2, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (rank == 0) print '(a,2f7.2)', 'real', total
  dots = (/ 1d0, -1d0, 0d0 /) * rank
  call MPI_Allreduce(dots, most, 3, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, ierr)
  if (rank == 0) print '(a,3f7.2)', 'double', most
  z = cmplx(1.0, real(rank))
  call MPI_Allreduce(z, product, 1, MPI_COMPLEX, MPI_PROD, MPI_COMM_WORLD, ierr)
  if (rank == 0) print '(a,2f7.2)', 'complex', product
  w = dcmplx(rank, -rank)
  call MPI_Allreduce(w, wsum, 1, MPI_DOUBLE_COMPLEX, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (rank == 0) print '(a,2f7.2)', 'double complex', wsum
  truth = rank /= 1
  call MPI_Allreduce(truth, all_true, 1, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD, ierr)
  call say('land '//merge('T', 'F', all_true))
  call MPI_Allreduce(truth, all_true, 1, MPI_LOGICAL, MPI_LOR, MPI_COMM_WORLD, ierr)
  call say('lor '//merge('T', 'F', all_true))
  call MPI_Allreduce(truth, all_true, 1, MPI_LOGICAL, MPI_LXOR, MPI_COMM_WORLD, ierr)
  call say('lxor '//merge('T', 'F', all_true))
  pair = (/ modulo(rank * 2, 5), rank /)
  call MPI_Allreduce(pair, best, 1, MPI_2INTEGER, MPI_MAXLOC, MPI_COMM_WORLD, ierr)
  call show('maxloc', best)
  dpair = (/ dble(abs(rank - 1)), dble(rank) /)
  call MPI_Allreduce(dpair, dbest, 1, MPI_2DOUBLE_PRECISION, MPI_MINLOC, MPI_COMM_WORLD, ierr)
  if (rank == 0) print '(a,2f5.1)', 'minloc', dbest
  large = 2_8**40 * (rank + 1)
  call MPI_Allreduce(large, larger, 1, MPI_INTEGER8, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (rank == 0) print '(a,i0)', 'integer8 ', larger
  call MPI_Allreduce(2**rank, number, 1, MPI_INTEGER4, MPI_BOR, MPI_COMM_WORLD, ierr)
  call show('bor', (/ number /))

  numbers(1:2) = (/ rank, 1 /)
  call MPI_Allreduce(MPI_IN_PLACE, numbers, 2, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  call show('in place', numbers(1:2))
  numbers(1) = rank
  if (rank == 0) then
    call MPI_Reduce(MPI_IN_PLACE, numbers, 1, MPI_INTEGER, MPI_MAX, 0, MPI_COMM_WORLD, ierr)
  else
    call MPI_Reduce(numbers, number, 1, MPI_INTEGER, MPI_MAX, 0, MPI_COMM_WORLD, ierr)
  end if
  call show('at the root', numbers(1:1))
  gathered(rank + 1) = rank + 40
  call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, gathered, 1, MPI_INTEGER, MPI_COMM_WORLD, ierr)
  call show('allgather in place', gathered(1:size))
  call MPI_Scan(rank + 1, number, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (rank == last) numbers(1) = number
  call MPI_Bcast(numbers, 1, MPI_INTEGER, last, MPI_COMM_WORLD, ierr)
  call show('scan', numbers(1:1))
  number = -1
  call MPI_Exscan(rank + 1, number, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (rank == last) print '(a,i0)', 'exscan ', number
  numbers = (/ (at, at = 1, 10) /)
  call MPI_Reduce_scatter(numbers, gathered, counts, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (rank == last) print '(a,4(1x,i0))', 'reduce_scatter', gathered(1:size)
  call MPI_Reduce_scatter_block(numbers, gathered, 2, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  call show('reduce_scatter_block', gathered(1:2))

  call MPI_Ibarrier(MPI_COMM_WORLD, request, ierr)
  call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
  number = rank
  call MPI_Ibcast(number, 1, MPI_INTEGER, last, MPI_COMM_WORLD, two(1), ierr)
  call MPI_Iallreduce(MPI_IN_PLACE, x, 2, MPI_REAL, MPI_MAX, MPI_COMM_WORLD, two(2), ierr)
  call MPI_Waitall(2, two, MPI_STATUSES_IGNORE, ierr)
  if (rank == 0) print '(a,i2,2f5.1)', 'non-blocking', number, x
  call MPI_Ialltoallw(numbers, counts, sent_at, types, gathered, same, got_at, types, MPI_COMM_WORLD, request, ierr)
  call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
  call show('ialltoallw', gathered(1:size))
  call MPI_Finalize(ierr)

contains

  ! `sum` is a variable here.
  integer function sum_of(values)
    integer, intent(in) :: values(:)
    integer :: at
    sum_of = 0
    do at = 1, ubound(values, 1)
      sum_of = sum_of + values(at)
    end do
  end function

  subroutine say(text)
    character(len=*), intent(in) :: text
    if (rank == 0) print '(a)', text
  end subroutine

  subroutine show(what, values)
    character(len=*), intent(in) :: what
    integer, intent(in) :: values(:)
    if (rank == 0) print '(a,18(1x,i0))', what, values
  end subroutine
end program
