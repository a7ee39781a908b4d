! np: 2 4
! In the manner of NAS FT: a transform of a square whose columns are spread over the processes, transposed by all-to-all.
program ft
  use mpi
  implicit none
  integer, parameter :: n = 64, real8 = kind(1d0)
  real(real8), parameter :: pi = acos(-1d0)
  integer :: rank, size, ierr, columns, i, j, wave(2)
  complex(real8), allocatable :: field(:, :), before(:, :)
  complex(real8) :: peak, checksum, whole
  real(real8) :: rest, most

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierr)
  columns = n / size
  allocate(field(n, columns), before(n, columns))

  ! A plane wave has one coefficient.
  wave = (/ 5, 11 /)
  do j = 1, columns
    do i = 1, n
      field(i, j) = exp(cmplx(0, 2 * pi * (wave(1) * (i - 1) + wave(2) * (rank * columns + j - 1)) / n, real8))
    end do
  end do
  call transform(field, -1)
  ! Transposed: the second wave number is the place in a column now.
  peak = 0
  if (wave(1) / columns == rank) then
    peak = field(wave(2) + 1, modulo(wave(1), columns) + 1)
    field(wave(2) + 1, modulo(wave(1), columns) + 1) = 0
  end if
  most = maxval(abs(field))
  call MPI_Allreduce(peak, whole, 1, MPI_DOUBLE_COMPLEX, MPI_SUM, MPI_COMM_WORLD, ierr)
  call MPI_Allreduce(most, rest, 1, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, ierr)
  if (rank == 0) print '(a,l2,l2)', 'wave', abs(whole - n * n) < 1d-8, rest < 1d-8

  ! There and back again.
  do j = 1, columns
    do i = 1, n
      field(i, j) = cmplx(modulo(i * 37 + (j + rank * columns) * 101, 64), modulo(i * j + rank, 17), real8)
    end do
  end do
  before = field
  call transform(field, -1)
  checksum = sum(field)
  call MPI_Reduce(checksum, whole, 1, MPI_COMPLEX16, MPI_SUM, 0, MPI_COMM_WORLD, ierr)
  call transform(field, 1)
  field = field / (n * n) - before
  most = maxval(abs(field))
  call MPI_Allreduce(MPI_IN_PLACE, most, 1, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, ierr)
  ! The sum of all coefficients is n * n times the first element.
  if (rank == 0) print '(a,l2,l2)', 'field', most < 1d-9, abs(whole - n * n * before(1, 1)) < 1d-6
  call MPI_Finalize(ierr)

contains

  subroutine transform(field, sign)
    complex(real8), intent(inout) :: field(n, columns)
    integer, intent(in) :: sign
    integer :: j
    do j = 1, columns
      call fft(field(:, j), sign)
    end do
    call transpose_all(field)
    do j = 1, columns
      call fft(field(:, j), sign)
    end do
  end subroutine

  subroutine transpose_all(field)
    complex(real8), intent(inout) :: field(n, columns)
    complex(real8) :: sent(columns, columns, size), got(columns, columns, size)
    integer :: at
    do at = 1, size
      sent(:, :, at) = transpose(field((at - 1) * columns + 1:at * columns, :))
    end do
    call MPI_Alltoall(sent, columns * columns, MPI_DOUBLE_COMPLEX, got, columns * columns, MPI_DOUBLE_COMPLEX, &
      MPI_COMM_WORLD, ierr)
    do at = 1, size
      field((at - 1) * columns + 1:at * columns, :) = got(:, :, at)
    end do
  end subroutine

  recursive subroutine fft(v, sign)
    complex(real8), intent(inout) :: v(:)
    integer, intent(in) :: sign
    complex(real8) :: even((ubound(v, 1) + 1) / 2), odd(ubound(v, 1) / 2), turn
    integer :: length, at
    length = ubound(v, 1)
    if (length == 1) return
    even = v(1::2)
    odd = v(2::2)
    call fft(even, sign)
    call fft(odd, sign)
    do at = 1, length / 2
      turn = exp(cmplx(0, sign * 2 * pi * (at - 1) / length, real8)) * odd(at)
      v(at) = even(at) + turn
      v(at + length / 2) = even(at) - turn
    end do
  end subroutine
end program
