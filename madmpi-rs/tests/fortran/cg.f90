! np: 2 4, peers: openmpi
! In the manner of NAS CG: conjugate gradients on a sparse matrix, the rows of a grid spread over the processes.
! MPICH 4.0 crashes in MPI_F_sync_reg.
program cg
  use mpi
  implicit none
  integer, parameter :: n = 64
  integer :: rank, size, ierr, rows, above, below, step, requests(4)
  double precision, allocatable :: x(:, :), b(:, :), r(:, :), p(:, :), ap(:, :), wanted(:, :)
  double precision :: rho, rho_before, alpha
  integer :: i, j

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierr)
  rows = n / size
  above = merge(MPI_PROC_NULL, rank - 1, rank == 0)
  below = merge(MPI_PROC_NULL, rank + 1, rank == size - 1)
  ! Columns of Fortran's lie in one piece: each is a row of the grid. 0 and rows + 1 are the neighbours'.
  allocate(x(n, 0:rows + 1), b(n, 0:rows + 1), r(n, 0:rows + 1), p(n, 0:rows + 1), ap(n, 0:rows + 1))
  allocate(wanted(n, 0:rows + 1))
  wanted = 0
  do j = 1, rows
    do i = 1, n
      wanted(i, j) = sin(0.1d0 * i) + cos(0.05d0 * (j + rank * rows)) * i / n
    end do
  end do
  call apply(wanted, b)
  x = 0
  r = b
  p = r
  rho = dot(r, r)
  do step = 1, 1000
    call apply(p, ap)
    alpha = rho / dot(p, ap)
    x(:, 1:rows) = x(:, 1:rows) + alpha * p(:, 1:rows)
    r(:, 1:rows) = r(:, 1:rows) - alpha * ap(:, 1:rows)
    rho_before = rho
    rho = dot(r, r)
    if (rho < 1d-22) exit
    p(:, 1:rows) = r(:, 1:rows) + rho / rho_before * p(:, 1:rows)
  end do
  r(:, 1:rows) = x(:, 1:rows) - wanted(:, 1:rows)
  rho = sqrt(dot(r, r))
  if (rank == 0) print '(a,l2,l2)', 'solved', step < 1000, rho < 1d-8
  call MPI_Finalize(ierr)

contains

  ! The five-point matrix, with the neighbours' rows.
  subroutine apply(v, result)
    double precision, intent(inout) :: v(n, 0:rows + 1), result(n, 0:rows + 1)
    integer :: i, j
    v(:, 0) = 0
    v(:, rows + 1) = 0
    call MPI_Irecv(v(1, 0), n, MPI_DOUBLE_PRECISION, above, 1, MPI_COMM_WORLD, requests(1), ierr)
    call MPI_Irecv(v(1, rows + 1), n, MPI_DOUBLE_PRECISION, below, 2, MPI_COMM_WORLD, requests(2), ierr)
    call MPI_Isend(v(1, rows), n, MPI_DOUBLE_PRECISION, below, 1, MPI_COMM_WORLD, requests(3), ierr)
    call MPI_Isend(v(1, 1), n, MPI_DOUBLE_PRECISION, above, 2, MPI_COMM_WORLD, requests(4), ierr)
    call MPI_Waitall(4, requests, MPI_STATUSES_IGNORE, ierr)
    call MPI_F_sync_reg(v)
    do j = 1, rows
      do i = 1, n
        result(i, j) = 4.1d0 * v(i, j) - v(i, j - 1) - v(i, j + 1)
        if (i > 1) result(i, j) = result(i, j) - v(i - 1, j)
        if (i < n) result(i, j) = result(i, j) - v(i + 1, j)
      end do
    end do
  end subroutine

  double precision function dot(one, other)
    double precision, intent(in) :: one(n, 0:rows + 1), other(n, 0:rows + 1)
    double precision :: part
    part = sum(one(:, 1:rows) * other(:, 1:rows))
    call MPI_Allreduce(part, dot, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  end function
end program
