! np: 2 4
! Errors that come back: each call says its class, and leaves what it was given alone.
#include "interface.h"
program errors
  USE_MPI
  implicit none
  INCLUDE_MPI
  integer :: rank, ierr, number, values(2), provided
  logical :: flag
  STATUS(st)
  COMM :: none
  DATATYPE :: made
  REQUEST :: request

  call MPI_Init_thread(MPI_THREAD_FUNNELED, provided, ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, ierr)
  call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN, ierr)
  if (rank == 0) print '(a,l2)', 'threads', provided >= MPI_THREAD_FUNNELED
  call MPI_Is_thread_main(flag, ierr)
  if (rank == 0) print '(a,l2)', 'main', flag

  call MPI_Send(number, 1, MPI_INTEGER, 9, 0, MPI_COMM_WORLD, ierr)
  call check('rank', MPI_ERR_RANK)
  call MPI_Send(number, 1, MPI_INTEGER, 0, -5, MPI_COMM_WORLD, ierr)
  call check('tag', MPI_ERR_TAG)
  call MPI_Send(number, -1, MPI_INTEGER, 0, 0, MPI_COMM_WORLD, ierr)
  call check('count', MPI_ERR_COUNT)
  call MPI_Send(number, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD, ierr)
  call check('type', MPI_ERR_TYPE)
  call MPI_Bcast(number, 1, MPI_INTEGER, 7, MPI_COMM_WORLD, ierr)
  call check('root', MPI_ERR_ROOT)
  none = MPI_COMM_NULL
  call MPI_Comm_rank(none, number, ierr)
  call check('comm', MPI_ERR_COMM)
  call MPI_Reduce(rank, number, 1, MPI_INTEGER, MPI_OP_NULL, 0, MPI_COMM_WORLD, ierr)
  call check('op', MPI_ERR_OP)
  call MPI_Irecv(number, 1, MPI_INTEGER, 9, 0, MPI_COMM_WORLD, request, ierr)
  call check('irecv', MPI_ERR_RANK)
  call MPI_Cart_create(MPI_COMM_WORLD, 1, (/ 100 /), (/ .false. /), .false., none, ierr)
  if (rank == 0) print '(a,l2)', 'too large a grid', ierr /= MPI_SUCCESS

  ! A message that does not fit.
  values = 0
  if (rank == 0) then
    call MPI_Send((/ 1, 2, 3 /), 3, MPI_INTEGER, 1, 1, MPI_COMM_WORLD, ierr)
  else if (rank == 1) then
    call MPI_Recv(values, 2, MPI_INTEGER, 0, 1, MPI_COMM_WORLD, st, ierr)
    call check('truncated', MPI_ERR_TRUNCATE)
  end if
  call MPI_Type_contiguous(3, MPI_INTEGER, made, ierr)
  call MPI_Type_free(made, ierr)
  if (rank == 0) print '(a,l2,l2)', 'freed', ierr == MPI_SUCCESS, made == MPI_DATATYPE_NULL
  call MPI_Finalize(ierr)

contains

  subroutine check(what, expected)
    character(len=*), intent(in) :: what
    integer, intent(in) :: expected
    integer :: class, ignored
    call MPI_Error_class(ierr, class, ignored)
    if (rank == 0 .or. what == 'truncated') print '(a,l2)', what, class == expected
  end subroutine
end program
