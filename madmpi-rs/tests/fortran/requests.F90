! np: 2 4, peers: openmpi
! Several requests: places count from 1, statuses are arrays or ignored; persistent and generalized requests.
#include "interface.h"
module generalized
  USE_MPI
  implicit none
#if INTERFACE == 77
  include 'mpif.h'
#endif
  integer :: calls = 0
contains
  subroutine query(extra, st, ierr)
    integer(kind=MPI_ADDRESS_KIND) :: extra
    STATUS(st)
    integer :: ierr
    call MPI_Status_set_elements(st, MPI_INTEGER, int(extra), ierr)
    call MPI_Status_set_cancelled(st, .false., ierr)
    SOURCE_OF(st) = MPI_UNDEFINED
    TAG_OF(st) = 77
    ierr = MPI_SUCCESS
  end subroutine
  subroutine done(extra, ierr)
    integer(kind=MPI_ADDRESS_KIND) :: extra
    integer :: ierr
    calls = calls + int(extra)
    ierr = MPI_SUCCESS
  end subroutine
  subroutine cancel(extra, complete, ierr)
    integer(kind=MPI_ADDRESS_KIND) :: extra
    logical :: complete
    integer :: ierr
    if (.not. complete) calls = calls + 100 * int(extra)
    ierr = MPI_SUCCESS
  end subroutine
end module

program requests
  use generalized
  implicit none
  integer, parameter :: many = 40
  integer :: rank, ierr, at, place, outcount, done_so_far, places(many)
#if INTERFACE == 77
  ! Else the compiler keeps what it has read before a wait. Modules of madmpi's tell it not to.
  integer, asynchronous :: sent(many), got(many)
#elif defined(PEER)
  integer, asynchronous :: sent(many), got(many)
#else
  integer :: sent(many), got(many)
#endif
  integer(kind=MPI_ADDRESS_KIND) :: extra
  logical :: flag
  REQUEST :: all(many), one
  COMM :: pair
  STATUS(st)
  STATUSES(sts, many)

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  ! Processes work in pairs, and the first pair prints.
  call MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, pair, ierr)
  if (rank > 1) open (6, file='/dev/null')
  call MPI_Comm_rank(pair, rank, ierr)
  ! More than the library keeps on its stack.
  do at = 1, many
    sent(at) = 1000 * rank + at
  end do
  if (rank == 0) then
    do at = 1, many
      call MPI_Irecv(got(at), 1, MPI_INTEGER, 1, at, pair, all(at), ierr)
    end do
    call MPI_Barrier(pair, ierr)
    call MPI_Waitall(many, all, sts, ierr)
    flag = .true.
    do at = 1, many
      call MPI_Get_count(ONE_OF(sts, at), MPI_INTEGER, outcount, ierr)
      flag = flag .and. outcount == 1 .and. got(at) == 1000 + at .and. all(at) == MPI_REQUEST_NULL
    end do
    print '(a,l1)', 'waitall ', flag
  else
    call MPI_Barrier(pair, ierr)
    do at = many, 1, -1
      call MPI_Isend(sent(at), 1, MPI_INTEGER, 0, at, pair, all(at), ierr)
    end do
    call MPI_Waitall(many, all, MPI_STATUSES_IGNORE, ierr)
  end if

  if (rank == 0) then
    do at = 1, 3
      call MPI_Irecv(got(at), 1, MPI_INTEGER, 1, at, pair, all(at), ierr)
    end do
    ! The one that is sent is the second of three.
    call MPI_Waitany(3, all, place, st, ierr)
    print '(a,i0,a,i0)', 'waitany ', place, ' tag ', TAG_OF(st)
    call MPI_Send(0, 0, MPI_INTEGER, 1, 5, pair, ierr)
    done_so_far = 0
    places = 0
    flag = .false.
    do while (done_so_far < 2)
      call MPI_Waitsome(3, all, outcount, places, sts, ierr)
      do at = 1, outcount
        flag = places(at) == 1 .or. places(at) == 3
        if (.not. flag .or. got(places(at)) /= 1000 + places(at)) print *, 'wrong place', places(at)
      end do
      done_so_far = done_so_far + outcount
    end do
    print '(a,i0,1x,l1)', 'waitsome ', done_so_far, flag
    call MPI_Waitany(3, all, place, st, ierr)
    print '(a,l1)', 'none left ', place == MPI_UNDEFINED
    call MPI_Testsome(3, all, outcount, places, MPI_STATUSES_IGNORE, ierr)
    print '(a,l1)', 'nor here ', outcount == MPI_UNDEFINED
    call MPI_Testany(3, all, place, flag, st, ierr)
    print '(a,l1,1x,l1)', 'nor there ', flag, place == MPI_UNDEFINED
    call MPI_Testall(3, all, flag, MPI_STATUSES_IGNORE, ierr)
    print '(a,l1)', 'all over ', flag
  else
    call MPI_Send(1002, 1, MPI_INTEGER, 0, 2, pair, ierr)
    call MPI_Recv(at, 0, MPI_INTEGER, 0, 5, pair, MPI_STATUS_IGNORE, ierr)
    call MPI_Send(1001, 1, MPI_INTEGER, 0, 1, pair, ierr)
    call MPI_Send(1003, 1, MPI_INTEGER, 0, 3, pair, ierr)
  end if

  call MPI_Send_init(sent, 2, MPI_INTEGER, 1 - rank, 6, pair, all(1), ierr)
  call MPI_Recv_init(got, 2, MPI_INTEGER, 1 - rank, 6, pair, all(2), ierr)
  do at = 1, 3
    sent(1) = at + rank
    call MPI_Startall(2, all, ierr)
    call MPI_Waitall(2, all, sts, ierr)
    if (got(1) /= at + 1 - rank) print *, 'persistent', at, got(1)
  end do
  call MPI_Start(all(1), ierr)
  call MPI_Start(all(2), ierr)
  flag = .false.
  do while (.not. flag)
    call MPI_Request_get_status(all(2), flag, st, ierr)
  end do
  call MPI_Test(all(2), flag, st, ierr)
  call MPI_Wait(all(1), MPI_STATUS_IGNORE, ierr)
  if (rank == 0) print '(a,l1,i3)', 'persistent ', flag, TAG_OF(st)
  call MPI_Request_free(all(1), ierr)
  call MPI_Request_free(all(2), ierr)
  if (rank == 0) print '(a,l1)', 'freed ', all(1) == MPI_REQUEST_NULL

  extra = 3
  call MPI_Grequest_start(query, done, cancel, extra, one, ierr)
  call MPI_Cancel(one, ierr)
  call MPI_Grequest_complete(one, ierr)
  call MPI_Wait(one, st, ierr)
  call MPI_Get_elements(st, MPI_INTEGER, outcount, ierr)
  if (rank == 0) print '(a,3(1x,i0))', 'generalized', calls, outcount, TAG_OF(st)
  call MPI_Comm_free(pair, ierr)
  call MPI_Finalize(ierr)
end program
