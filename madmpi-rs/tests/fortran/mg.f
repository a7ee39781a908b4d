! np: 1 2 4
C     In the manner of NAS MG: a multigrid on a periodic cube, whose
C     parts give their faces to the neighbours and take theirs: receives
C     are posted, the faces sent, then waited for. Old style: mpif.h,
C     common blocks. The norms do not depend on how many processes
C     there are.
      program mg
      implicit none
      include 'mpif.h'
      integer maxlevel, room
      parameter (maxlevel = 4, room = 34**3 * 2)
      integer me, nprocs, grid(3), place(3), next(2, 3)
      common /who/ me, nprocs, grid, place, next
      integer levels, edge, n(3, maxlevel), at(maxlevel + 1)
      common /sizes/ levels, edge, n, at
      double precision u(room), f(room), r(room)
      common /fields/ u, f, r
      integer ierr, numbers(2), cycle, l, axis, left
      double precision two, worst, first, seconds

      call MPI_INIT(ierr)
      call MPI_COMM_RANK(MPI_COMM_WORLD, me, ierr)
      call MPI_COMM_SIZE(MPI_COMM_WORLD, nprocs, ierr)
C     The root knows the size of the problem.
      if (me .eq. 0) then
         numbers(1) = 4
         numbers(2) = 32
      end if
      call MPI_BCAST(numbers, 2, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
      levels = numbers(1)
      edge = numbers(2)

C     Halves along one axis after the other.
      left = nprocs
      do axis = 1, 3
         grid(axis) = 1
      end do
      axis = 3
      do while (left .gt. 1)
         grid(axis) = grid(axis) * 2
         left = left / 2
         axis = mod(axis + 1, 3) + 1
      end do
      place(1) = mod(me, grid(1))
      place(2) = mod(me / grid(1), grid(2))
      place(3) = me / (grid(1) * grid(2))
      do axis = 1, 3
         next(1, axis) = process(axis, -1)
         next(2, axis) = process(axis, 1)
      end do
      at(1) = 1
      do l = 1, levels
         do axis = 1, 3
            n(axis, l) = edge / 2**(l - 1) / grid(axis)
         end do
         at(l + 1) = at(l) + (n(1, l) + 2) * (n(2, l) + 2)
     &        * (n(3, l) + 2)
      end do
      if (at(levels + 1) .gt. room) call MPI_ABORT(MPI_COMM_WORLD, 1,
     &     ierr)

      call fill(f, n(1, 1), n(2, 1), n(3, 1))
      do l = 1, room
         u(l) = 0
      end do
      call MPI_BARRIER(MPI_COMM_WORLD, ierr)
      seconds = MPI_WTIME()
      call residual(u, f, r, n(1, 1), n(2, 1), n(3, 1), 1)
      call norms(r, n(1, 1), n(2, 1), n(3, 1), first, worst)
      if (me .eq. 0) write (*, 10) 0, first, worst
      do cycle = 1, 16
         call vcycle
         call residual(u, f, r, n(1, 1), n(2, 1), n(3, 1), 1)
         call norms(r, n(1, 1), n(2, 1), n(3, 1), two, worst)
         if (me .eq. 0 .and. mod(cycle, 4) .eq. 0) write (*, 10)
     &        cycle, two, worst
      end do
 10   format ('cycle ', i2.2, 1x, es10.3, 1x, es10.3)
      seconds = MPI_WTIME() - seconds
      call MPI_ALLREDUCE(MPI_IN_PLACE, seconds, 1,
     &     MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, ierr)
      if (me .eq. 0) write (*, '(a,2l2)') 'verified', two .lt.
     &     1d-10 * first, seconds .gt. 0
      call MPI_FINALIZE(ierr)

      contains

C     The neighbour along an axis, around.
      integer function process(axis, side)
      integer axis, side, p(3), k
      do k = 1, 3
         p(k) = place(k)
      end do
      p(axis) = mod(p(axis) + side + grid(axis), grid(axis))
      process = p(1) + grid(1) * (p(2) + grid(2) * p(3))
      end function

      end program

      subroutine fill(f, n1, n2, n3)
      implicit none
      integer n1, n2, n3, i, j, k
      double precision f(0:n1 + 1, 0:n2 + 1, 0:n3 + 1)
      integer me, nprocs, grid(3), place(3), next(2, 3)
      common /who/ me, nprocs, grid, place, next
      do k = 1, n3
         do j = 1, n2
            do i = 1, n1
               f(i, j, k) = mod((i + place(1) * n1) * 37
     &              + (j + place(2) * n2) * 101
     &              + (k + place(3) * n3) * (i + place(1) * n1) * 17,
     &              64) / 64d0 - 0.5d0
            end do
         end do
      end do
      end

C     One cycle from the finest grid to the coarsest and back.
      subroutine vcycle
      implicit none
      integer maxlevel, room
      parameter (maxlevel = 4, room = 34**3 * 2)
      integer levels, edge, n(3, maxlevel), at(maxlevel + 1)
      common /sizes/ levels, edge, n, at
      double precision u(room), f(room), r(room)
      common /fields/ u, f, r
      integer l, k, sweeps
      do l = 1, levels
         if (l .gt. 1) then
            call coarser(r(at(l - 1)), n(1, l - 1), n(2, l - 1),
     &           n(3, l - 1), f(at(l)), n(1, l), n(2, l), n(3, l))
            do k = at(l), at(l + 1) - 1
               u(k) = 0
            end do
         end if
         sweeps = 2
         if (l .eq. levels) sweeps = 30
         call smooth(u(at(l)), f(at(l)), r(at(l)), n(1, l), n(2, l),
     &        n(3, l), l, sweeps)
      end do
      do l = levels - 1, 1, -1
         call finer(u(at(l + 1)), n(1, l + 1), n(2, l + 1),
     &        n(3, l + 1), u(at(l)), n(1, l), n(2, l), n(3, l))
         call smooth(u(at(l)), f(at(l)), r(at(l)), n(1, l), n(2, l),
     &        n(3, l), l, 2)
      end do
      end

C     Damped Jacobi; the residual of the last sweep's result is in r.
      subroutine smooth(u, f, r, n1, n2, n3, level, sweeps)
      implicit none
      integer n1, n2, n3, level, sweeps, i, j, k, s
      double precision u(0:n1 + 1, 0:n2 + 1, 0:n3 + 1)
      double precision f(0:n1 + 1, 0:n2 + 1, 0:n3 + 1)
      double precision r(0:n1 + 1, 0:n2 + 1, 0:n3 + 1), weight
      weight = 0.85d0 / (6 / 4d0**(level - 1) + 0.1d0)
      do s = 1, sweeps
         call residual(u, f, r, n1, n2, n3, level)
         do k = 1, n3
            do j = 1, n2
               do i = 1, n1
                  u(i, j, k) = u(i, j, k) + weight * r(i, j, k)
               end do
            end do
         end do
      end do
      call residual(u, f, r, n1, n2, n3, level)
      end

C     r = f - A u with the seven-point operator of the level.
      subroutine residual(u, f, r, n1, n2, n3, level)
      implicit none
      integer n1, n2, n3, level, i, j, k
      double precision u(0:n1 + 1, 0:n2 + 1, 0:n3 + 1)
      double precision f(0:n1 + 1, 0:n2 + 1, 0:n3 + 1)
      double precision r(0:n1 + 1, 0:n2 + 1, 0:n3 + 1), scale
      scale = 1 / 4d0**(level - 1)
      call comm3(u, n1, n2, n3)
      do k = 1, n3
         do j = 1, n2
            do i = 1, n1
               r(i, j, k) = f(i, j, k) - 0.1d0 * u(i, j, k)
     &              - scale * (6 * u(i, j, k) - u(i - 1, j, k)
     &              - u(i + 1, j, k) - u(i, j - 1, k) - u(i, j + 1, k)
     &              - u(i, j, k - 1) - u(i, j, k + 1))
            end do
         end do
      end do
      end

C     Each coarse cell is the mean of eight.
      subroutine coarser(r, n1, n2, n3, f, m1, m2, m3)
      implicit none
      integer n1, n2, n3, m1, m2, m3, i, j, k, a, b, c
      double precision r(0:n1 + 1, 0:n2 + 1, 0:n3 + 1), sum
      double precision f(0:m1 + 1, 0:m2 + 1, 0:m3 + 1)
      do k = 1, m3
         do j = 1, m2
            do i = 1, m1
               sum = 0
               do c = 0, 1
                  do b = 0, 1
                     do a = 0, 1
                        sum = sum + r(2 * i - a, 2 * j - b, 2 * k - c)
                     end do
                  end do
               end do
               f(i, j, k) = sum / 8
            end do
         end do
      end do
      end

      subroutine finer(v, m1, m2, m3, u, n1, n2, n3)
      implicit none
      integer n1, n2, n3, m1, m2, m3, i, j, k
      double precision u(0:n1 + 1, 0:n2 + 1, 0:n3 + 1)
      double precision v(0:m1 + 1, 0:m2 + 1, 0:m3 + 1)
      do k = 1, n3
         do j = 1, n2
            do i = 1, n1
               u(i, j, k) = u(i, j, k)
     &              + v((i + 1) / 2, (j + 1) / 2, (k + 1) / 2)
            end do
         end do
      end do
      end

      subroutine norms(r, n1, n2, n3, two, worst)
      implicit none
      include 'mpif.h'
      integer n1, n2, n3, i, j, k, ierr
      double precision r(0:n1 + 1, 0:n2 + 1, 0:n3 + 1), two, worst
      double precision sum, most, cells
      sum = 0
      most = 0
      do k = 1, n3
         do j = 1, n2
            do i = 1, n1
               sum = sum + r(i, j, k)**2
               most = max(most, abs(r(i, j, k)))
            end do
         end do
      end do
      call MPI_ALLREDUCE(sum, two, 1, MPI_DOUBLE_PRECISION, MPI_SUM,
     &     MPI_COMM_WORLD, ierr)
      call MPI_ALLREDUCE(most, worst, 1, MPI_DOUBLE_PRECISION, MPI_MAX,
     &     MPI_COMM_WORLD, ierr)
      call MPI_ALLREDUCE(dble(n1 * n2 * n3), cells, 1,
     &     MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
      two = sqrt(two / cells)
      end

C     The faces of the neighbours, along one axis after the other.
      subroutine comm3(u, n1, n2, n3)
      implicit none
      integer n1, n2, n3, axis
      double precision u(0:n1 + 1, 0:n2 + 1, 0:n3 + 1)
      integer me, nprocs, grid(3), place(3), next(2, 3)
      common /who/ me, nprocs, grid, place, next
      do axis = 1, 3
         if (grid(axis) .gt. 1) then
            call ready(axis, 1)
            call ready(axis, 2)
            call give3(axis, 2, u, n1, n2, n3)
            call give3(axis, 1, u, n1, n2, n3)
            call take3(axis, 1, u, n1, n2, n3)
            call take3(axis, 2, u, n1, n2, n3)
         else
            call comm1p(axis, u, n1, n2, n3)
         end if
      end do
      end

C     Side 1 is below, side 2 above. A face that is given above is taken
C     from below: the tag is the side on which it is taken.
      subroutine ready(axis, side)
      implicit none
      include 'mpif.h'
      integer axis, side, ierr, room
      parameter (room = 34 * 34)
      integer me, nprocs, grid(3), place(3), next(2, 3)
      common /who/ me, nprocs, grid, place, next
      double precision buff(room, 4)
      integer requests(2)
      common /faces/ buff, requests
      call MPI_IRECV(buff(1, side), room, MPI_DOUBLE_PRECISION,
     &     next(side, axis), 10 * axis + side, MPI_COMM_WORLD,
     &     requests(side), ierr)
      end

      subroutine give3(axis, side, u, n1, n2, n3)
      implicit none
      include 'mpif.h'
      integer axis, side, n1, n2, n3, i, j, k, length, ierr, room
      parameter (room = 34 * 34)
      double precision u(0:n1 + 1, 0:n2 + 1, 0:n3 + 1)
      integer me, nprocs, grid(3), place(3), next(2, 3)
      common /who/ me, nprocs, grid, place, next
      double precision buff(room, 4)
      integer requests(2), low(3), high(3)
      common /faces/ buff, requests
      call face(axis, side, .true., n1, n2, n3, low, high)
      length = 0
      do k = low(3), high(3)
         do j = low(2), high(2)
            do i = low(1), high(1)
               length = length + 1
               buff(length, 2 + side) = u(i, j, k)
            end do
         end do
      end do
      call MPI_SEND(buff(1, 2 + side), length, MPI_DOUBLE_PRECISION,
     &     next(side, axis), 10 * axis + 3 - side, MPI_COMM_WORLD, ierr)
      end

      subroutine take3(axis, side, u, n1, n2, n3)
      implicit none
      include 'mpif.h'
      integer axis, side, n1, n2, n3, i, j, k, length, ierr, room
      parameter (room = 34 * 34)
      double precision u(0:n1 + 1, 0:n2 + 1, 0:n3 + 1)
      double precision buff(room, 4)
      integer requests(2), low(3), high(3), status(MPI_STATUS_SIZE)
      common /faces/ buff, requests
      integer got
      call MPI_WAIT(requests(side), status, ierr)
      call face(axis, side, .false., n1, n2, n3, low, high)
      length = 0
      do k = low(3), high(3)
         do j = low(2), high(2)
            do i = low(1), high(1)
               length = length + 1
               u(i, j, k) = buff(length, side)
            end do
         end do
      end do
      call MPI_GET_COUNT(status, MPI_DOUBLE_PRECISION, got, ierr)
      if (got .ne. length) call MPI_ABORT(MPI_COMM_WORLD, 2, ierr)
      end

C     The cells of a face: inside to give, outside to take.
      subroutine face(axis, side, inside, n1, n2, n3, low, high)
      implicit none
      integer axis, side, n1, n2, n3, low(3), high(3), n(3), k
      logical inside
      n(1) = n1
      n(2) = n2
      n(3) = n3
      do k = 1, 3
         low(k) = 1
         high(k) = n(k)
      end do
      low(axis) = merge(merge(1, 0, inside),
     &     merge(n(axis), n(axis) + 1, inside), side .eq. 1)
      high(axis) = low(axis)
      end

C     The process is its own neighbour.
      subroutine comm1p(axis, u, n1, n2, n3)
      implicit none
      integer axis, n1, n2, n3, i, j, k
      double precision u(0:n1 + 1, 0:n2 + 1, 0:n3 + 1)
      if (axis .eq. 1) then
         do k = 1, n3
            do j = 1, n2
               u(0, j, k) = u(n1, j, k)
               u(n1 + 1, j, k) = u(1, j, k)
            end do
         end do
      else if (axis .eq. 2) then
         do k = 1, n3
            do i = 1, n1
               u(i, 0, k) = u(i, n2, k)
               u(i, n2 + 1, k) = u(i, 1, k)
            end do
         end do
      else
         do j = 1, n2
            do i = 1, n1
               u(i, j, 0) = u(i, j, n3)
               u(i, j, n3 + 1) = u(i, j, 1)
            end do
         end do
      end if
      end
