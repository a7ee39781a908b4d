! np: 2 4
! In the manner of NAS EP: pairs of normal deviates, each process a part of one sequence. All of them make what one makes.
program ep
  use mpi_f08
  implicit none
  integer, parameter :: wide = selected_int_kind(15), real8 = kind(1d0)
  integer(wide), parameter :: modulus = 2147483647_wide, factor = 16807_wide
  integer, parameter :: pairs = 200000
  integer :: rank, size, first, last
  integer :: counts(0:9), total(0:9), alone(0:9)
  real(real8) :: sums(2), all_sums(2), one_sums(2), seconds, slowest

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  first = rank * pairs / size
  last = (rank + 1) * pairs / size
  seconds = MPI_Wtime()
  call deviates(first, last, counts, sums)
  call MPI_Allreduce(counts, total, 10, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call MPI_Allreduce(sums, all_sums, 2, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
  seconds = MPI_Wtime() - seconds
  call MPI_Reduce(seconds, slowest, 1, MPI_DOUBLE_PRECISION, MPI_MAX, 0, MPI_COMM_WORLD)
  if (rank == 0) then
    call deviates(0, pairs, alone, one_sums)
    print '(a,l2)', 'counts', all(total == alone)
    print '(a,l2)', 'sums', all(abs(all_sums - one_sums) < 1d-8 * pairs)
    ! A pair lies in the circle with the probability of pi / 4.
    print '(a,l2)', 'circle', abs(sum(total) / dble(pairs) - 0.785398d0) < 0.005d0
    print '(a,l2)', 'time', slowest > 0
  end if
  call MPI_Finalize()

contains

  ! The state of the sequence after so many numbers.
  pure integer(wide) function after(numbers)
    integer, intent(in) :: numbers
    integer(wide) :: power
    integer :: left
    after = 271828183_wide
    power = factor
    left = numbers
    do while (left > 0)
      if (modulo(left, 2) == 1) after = modulo(after * power, modulus)
      power = modulo(power * power, modulus)
      left = left / 2
    end do
  end function

  subroutine deviates(first, last, counts, sums)
    integer, intent(in) :: first, last
    integer, intent(out) :: counts(0:9)
    real(real8), intent(out) :: sums(2)
    integer(wide) :: state
    integer :: at, ring
    real(real8) :: x, y, square, scale
    counts = 0
    sums = 0
    state = after(2 * first)
    do at = first + 1, last
      state = modulo(state * factor, modulus)
      x = 2 * dble(state) / dble(modulus) - 1
      state = modulo(state * factor, modulus)
      y = 2 * dble(state) / dble(modulus) - 1
      square = x * x + y * y
      if (square > 1 .or. square == 0) cycle
      scale = sqrt(-2 * log(square) / square)
      sums = sums + scale * (/ x, y /)
      ring = min(9, int(max(abs(x * scale), abs(y * scale))))
      counts(ring) = counts(ring) + 1
    end do
  end subroutine
end program
