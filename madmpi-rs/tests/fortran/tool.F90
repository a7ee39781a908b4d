! np: 2 4, peers: no
! A tool in C sees the calls of Fortran (tool.c defines MPI_Barrier and MPI_Send).
#include "interface.h"
program tool
  USE_MPI
  implicit none
  INCLUDE_MPI
  integer :: rank, ierr, number
  integer, external :: seen
  COMM :: pair
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  ! Processes work in pairs, and the first pair prints.
  call MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, pair, ierr)
  if (rank > 1) open (6, file='/dev/null')
  call MPI_Comm_rank(pair, rank, ierr)
  call MPI_Barrier(pair, ierr)
  call MPI_Barrier(pair, ierr)
  call PMPI_Barrier(pair, ierr)
  if (rank == 0) call MPI_Send(9, 1, MPI_INTEGER, 1, 1, pair, ierr)
  if (rank == 1) call MPI_Recv(number, 1, MPI_INTEGER, 0, 1, pair, MPI_STATUS_IGNORE, ierr)
  if (rank == 0) print '(a,i0)', 'seen ', seen()
  call MPI_Comm_free(pair, ierr)
  call MPI_Finalize(ierr)
end program
