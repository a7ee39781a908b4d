! np: 2 4
C     In the manner of NAS LU: a sweep over a square from its corner, on
C     a grid of processes: each waits for the edges of the one before it
C     in both directions. Old style: fixed form, mpif.h, common blocks.
      program lu
      implicit none
      include 'mpif.h'
      integer n
      parameter (n = 48)
      integer rank, nproc, ierr, i, j, k, grid, dims(2), coords(2)
      integer north, south, west, east, status(MPI_STATUS_SIZE)
      integer block, piece, request, rows, columns
      logical periods(2)
      double precision u(0:n, 0:n), whole(0:n, 0:n), got(n, n)
      double precision edge(n), worst
      common /field/ u, whole, got

      call MPI_INIT(ierr)
      call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
      call MPI_COMM_SIZE(MPI_COMM_WORLD, nproc, ierr)
      dims(1) = 0
      dims(2) = 0
      call MPI_DIMS_CREATE(nproc, 2, dims, ierr)
      rows = n / dims(1)
      columns = n / dims(2)
      periods(1) = .false.
      periods(2) = .false.
      call MPI_CART_CREATE(MPI_COMM_WORLD, 2, dims, periods, .false.,
     &     grid, ierr)
      call MPI_CART_COORDS(grid, rank, 2, coords, ierr)
      call MPI_CART_SHIFT(grid, 0, 1, north, south, ierr)
      call MPI_CART_SHIFT(grid, 1, 1, west, east, ierr)

      do 10 j = 0, columns
         do 20 i = 0, rows
            u(i, j) = 1.0d0
 20      continue
 10   continue
C     Several sweeps are under way at a time: that is the pipeline.
      do 30 k = 1, 5
         call MPI_RECV(edge, columns, MPI_DOUBLE_PRECISION, north, k,
     &        grid, status, ierr)
         if (north .ne. MPI_PROC_NULL) then
            do 40 j = 1, columns
               u(0, j) = edge(j)
 40         continue
         endif
         call MPI_RECV(u(1, 0), rows, MPI_DOUBLE_PRECISION, west,
     &        100 + k, grid, status, ierr)
         do 50 j = 1, columns
            do 60 i = 1, rows
               u(i, j) = 0.4d0 * u(i - 1, j) + 0.35d0 * u(i, j - 1)
     &              + 0.2d0 * u(i, j) + 0.01d0 * k
 60         continue
 50      continue
         do 70 j = 1, columns
            edge(j) = u(rows, j)
 70      continue
         call MPI_SEND(edge, columns, MPI_DOUBLE_PRECISION, south, k,
     &        grid, ierr)
         call MPI_SEND(u(1, columns), rows, MPI_DOUBLE_PRECISION, east,
     &        100 + k, grid, ierr)
 30   continue

C     Rank 0 has the whole square, each part where it belongs.
      call MPI_TYPE_VECTOR(columns, rows, n, MPI_DOUBLE_PRECISION,
     &     block, ierr)
      call MPI_TYPE_COMMIT(block, ierr)
      call MPI_TYPE_VECTOR(columns, rows, n + 1,
     &     MPI_DOUBLE_PRECISION, piece, ierr)
      call MPI_TYPE_COMMIT(piece, ierr)
      call MPI_ISEND(u(1, 1), 1, piece, 0, 7, grid, request, ierr)
      if (rank .eq. 0) then
         do 80 k = 0, nproc - 1
            call MPI_CART_COORDS(grid, k, 2, coords, ierr)
            call MPI_RECV(got(coords(1) * rows + 1,
     &           coords(2) * columns + 1), 1, block, k, 7, grid,
     &           status, ierr)
 80      continue
         do 90 j = 0, n
            do 100 i = 0, n
               whole(i, j) = 1.0d0
 100        continue
 90      continue
         do 110 k = 1, 5
            do 120 j = 1, n
               do 130 i = 1, n
                  whole(i, j) = 0.4d0 * whole(i - 1, j)
     &                 + 0.35d0 * whole(i, j - 1)
     &                 + 0.2d0 * whole(i, j) + 0.01d0 * k
 130           continue
 120        continue
 110     continue
         worst = 0
         do 140 j = 1, n
            do 150 i = 1, n
               worst = max(worst, abs(whole(i, j) - got(i, j)))
 150        continue
 140     continue
         write (*, '(a,l2)') 'sweeps', worst .lt. 1d-12
      endif
      call MPI_WAIT(request, MPI_STATUS_IGNORE, ierr)
      call MPI_TYPE_FREE(block, ierr)
      call MPI_TYPE_FREE(piece, ierr)
      call MPI_COMM_FREE(grid, ierr)
      call MPI_FINALIZE(ierr)
      end
