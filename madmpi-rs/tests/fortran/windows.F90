! np: 2 4
! One-sided communication: a window over an array of the program's, with fences, locks, groups and requests.
#include "interface.h"
program windows
  USE_MPI
  implicit none
  INCLUDE_MPI
  integer, parameter :: n = 1000
  integer, asynchronous :: memory(n), local(n), old, one, counter(1)
  double precision, asynchronous :: numbers(4), sums(4)
  integer :: rank, size, next, before, i, ierr, wrong, all, flavor
  integer(kind=MPI_ADDRESS_KIND) :: bytes, place, value
  logical :: flag
  WINDOW :: win, dwin
  DATATYPE :: every
  GROUP :: world, nexts, befores
  REQUEST :: req

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierr)
  next = mod(rank + 1, size)
  before = mod(rank + size - 1, size)
  bytes = n * 4
  memory = -1
  call MPI_Win_create(memory, bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win, ierr)

  ! Every second element of the next rank's memory.
  call MPI_Type_vector(n / 2, 1, 2, MPI_INTEGER, every, ierr)
  call MPI_Type_commit(every, ierr)
  local = (/ (rank * 10000 + i, i = 1, n) /)
  call MPI_Win_fence(0, win, ierr)
  place = 1
  call MPI_Put(local, n / 2, MPI_INTEGER, next, place, 1, every, win, ierr)
  call MPI_Win_fence(0, win, ierr)
  wrong = 0
  do i = 1, n / 2
    if (memory(2 * i) /= before * 10000 + i .or. memory(2 * i - 1) /= -1) wrong = wrong + 1
  end do
  call report('put with a fence')

  local = 0
  place = 1
  call MPI_Get(local, 1, every, next, place, 1, every, win, ierr)
  call MPI_Win_fence(0, win, ierr)
  do i = 1, n / 2
    if (local(2 * i - 1) /= rank * 10000 + i) wrong = wrong + 1
  end do
  call report('get')

  ! All ranks count at rank 0.
  if (rank == 0) memory(1) = 0
  call MPI_Win_fence(0, win, ierr)
  one = 1
  do i = 1, 100
    place = 0
    call MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win, ierr)
    call MPI_Fetch_and_op(one, old, MPI_INTEGER, 0, place, MPI_SUM, win, ierr)
    call MPI_Win_unlock(0, win, ierr)
    if (old < 0 .or. old >= 100 * size) wrong = wrong + 1
  end do
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  call MPI_Win_lock_all(0, win, ierr)
  place = 0
  call MPI_Rget(counter, 1, MPI_INTEGER, 0, place, 1, MPI_INTEGER, win, req, ierr)
  call MPI_Wait(req, MPI_STATUS_IGNORE, ierr)
  call MPI_Win_unlock_all(win, ierr)
  if (counter(1) /= 100 * size) wrong = wrong + 1
  call report('fetch and op with locks')

  ! Groups: the next rank's memory is written, the one before writes here.
  call MPI_Comm_group(MPI_COMM_WORLD, world, ierr)
  call MPI_Group_incl(world, 1, (/ next /), nexts, ierr)
  call MPI_Group_incl(world, 1, (/ before /), befores, ierr)
  bytes = 32
  numbers = rank
  sums = 0.5d0
  call MPI_Win_create(sums, bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, dwin, ierr)
  call MPI_Win_post(befores, 0, dwin, ierr)
  call MPI_Win_start(nexts, 0, dwin, ierr)
  place = 0
  call MPI_Accumulate(numbers, 4, MPI_DOUBLE_PRECISION, next, place, 4, MPI_DOUBLE_PRECISION, MPI_SUM, dwin, ierr)
  call MPI_Win_complete(dwin, ierr)
  call MPI_Win_wait(dwin, ierr)
  if (any(sums /= 0.5d0 + before)) wrong = wrong + 1
  call report('accumulate between groups')

  call MPI_Win_get_attr(win, MPI_WIN_SIZE, value, flag, ierr)
  if (.not. flag .or. value /= n * 4) wrong = wrong + 1
  call MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, value, flag, ierr)
  flavor = int(value)
  if (.not. flag .or. flavor /= MPI_WIN_FLAVOR_CREATE) wrong = wrong + 1
  call report('attributes')

  call MPI_Win_free(dwin, ierr)
  call MPI_Win_free(win, ierr)
  if (win /= MPI_WIN_NULL) wrong = wrong + 1
  call report('freed')
  call MPI_Type_free(every, ierr)
  call MPI_Group_free(nexts, ierr)
  call MPI_Group_free(befores, ierr)
  call MPI_Group_free(world, ierr)
  call MPI_Finalize(ierr)

contains

  subroutine report(what)
    character(len=*), intent(in) :: what
    call MPI_Allreduce(wrong, all, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
    if (rank == 0 .and. all == 0) print '(a, a)', what, ': right'
    if (rank == 0 .and. all /= 0) print '(a, a, i0)', what, ': wrong ', all
    wrong = 0
  end subroutine
end program
