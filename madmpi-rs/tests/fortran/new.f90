! np: 2, peers: no
! What newer versions of MPI have, in mpi_f08: large counts under the same names, sessions, persistent collectives.
program new
  use mpi_f08
  use, intrinsic :: iso_c_binding
  implicit none
  integer :: rank, size, provided, class, length, major, minor, at, values(4), got(4), sum(4), one, expected
  integer(kind=MPI_COUNT_KIND) :: count, large
  integer(kind=MPI_ADDRESS_KIND) :: bytes
  integer, target :: buffer(1000)
  integer, pointer :: memory(:)
  integer :: f_status(MPI_STATUS_SIZE)
  logical :: flag
  logical(kind=4) :: yes, no
  character(len=8) :: value
  character(len=200) :: name
  type(c_ptr) :: address
  type(MPI_Comm) :: comm
  type(MPI_Datatype) :: made
  type(MPI_Group) :: group
  type(MPI_Info) :: info
  type(MPI_Message) :: matched
  type(MPI_Op) :: op
  type(MPI_Request) :: request, two(2)
  type(MPI_Session) :: session
  type(MPI_Status) :: st, other

  call MPI_Init_thread(MPI_THREAD_MULTIPLE, provided)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  ! ierror may be left out, and arguments may have their names.
  call MPI_Comm_rank(comm=MPI_COMM_WORLD, rank=rank, ierror=class)
  call show('threads', provided == MPI_THREAD_MULTIPLE)

  count = 4
  values = (/ 1, 2, 3, 4 /) + 10 * rank
  call MPI_Sendrecv(values, count, MPI_INTEGER, 1 - rank, 1, got, count, MPI_INTEGER, 1 - rank, 1, MPI_COMM_WORLD, st)
  call MPI_Get_count(st, MPI_INTEGER, large)
  call show('large counts', large == 4 .and. all(got == values + 10 - 20 * rank))
  ! Matched messages: the call takes the message, and the request is its result.
  if (rank == 0) then
    call MPI_Send(values, count, MPI_INTEGER, 1, 5, MPI_COMM_WORLD)
    call MPI_Send(values, count, MPI_INTEGER, 1, 6, MPI_COMM_WORLD)
    call MPI_Send(values, count, MPI_INTEGER, 1, 7, MPI_COMM_WORLD)
  else
    call MPI_Mprobe(0, 5, MPI_COMM_WORLD, matched, st)
    call MPI_Mrecv(got, count, MPI_INTEGER, matched, st)
    if (matched /= MPI_MESSAGE_NULL .or. any(got /= values - 10)) print *, 'mrecv', got
    do at = 6, 7
      got = 0
      request%MPI_VAL = -1
      call MPI_Mprobe(0, at, MPI_COMM_WORLD, matched, st)
      if (at == 6) call MPI_Imrecv(got, count, MPI_INTEGER, matched, request)
      if (at == 7) call MPI_Imrecv(got, 4, MPI_INTEGER, matched, request)
      call MPI_Wait(request, MPI_STATUS_IGNORE)
      if (matched /= MPI_MESSAGE_NULL .or. any(got /= values - 10)) print *, 'imrecv', at, got
    end do
  end if
  call MPI_Type_contiguous(3000000000_MPI_COUNT_KIND, MPI_BYTE, made)
  call MPI_Type_size(made, large)
  call show('large types', large == 3000000000_MPI_COUNT_KIND)
  call MPI_Type_get_extent(made, bytes, large)
  call show('large extents', large == 3000000000_MPI_COUNT_KIND)
  call MPI_Type_free(made)
  call MPI_Op_create_c(twice, .true., op)
  call MPI_Allreduce(values, sum, count, MPI_INTEGER, op, MPI_COMM_WORLD)
  call show('large operator', any(sum(1) == (/ 1 + 22, 2 + 11 /)))
  call MPI_Op_free(op)
  call PMPI_Allreduce(MPI_IN_PLACE, values, 4, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD)
  call show('profiled name', values(1) == 11)

  call MPI_Allreduce_init(values, sum, 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, request)
  flag = .true.
  do at = 1, 3
    values = at + rank
    call MPI_Start(request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    flag = flag .and. all(sum == 2 * at + 1)
  end do
  call MPI_Request_free(request)
  call show('persistent', flag)
  call MPI_Isendrecv(rank, 1, MPI_INTEGER, 1 - rank, 2, one, 1, MPI_INTEGER, 1 - rank, 2, MPI_COMM_WORLD, request)
  call MPI_Wait(request, st)
  call show('isendrecv', one == 1 - rank .and. st%MPI_SOURCE == 1 - rank)
  if (rank == 0) then
    call MPI_Psend_init(buffer, 4, 25_MPI_COUNT_KIND, MPI_INTEGER, 1, 3, MPI_COMM_WORLD, MPI_INFO_NULL, request)
    buffer = (/ (at, at = 1, 1000) /)
    call MPI_Start(request)
    call MPI_Pready(3, request)
    call MPI_Pready_range(0, 1, request)
    call MPI_Pready_list(1, (/ 2 /), request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
  else
    call MPI_Precv_init(buffer, 4, 25_MPI_COUNT_KIND, MPI_INTEGER, 0, 3, MPI_COMM_WORLD, MPI_INFO_NULL, request)
    call MPI_Start(request)
    flag = .false.
    do while (.not. flag)
      call MPI_Parrived(request, 2, flag)
    end do
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    if (any(buffer(1:100) /= (/ (at, at = 1, 100) /))) print *, 'partitions'
  end if
  call MPI_Request_free(request)

  call MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, session)
  call MPI_Session_get_num_psets(session, MPI_INFO_NULL, at)
  length = 0
  call MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, length, name)
  call MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, length, name)
  call show('sets', at >= 2 .and. len_trim(name) == length .and. length > 0)
  call MPI_Group_from_session_pset(session, 'mpi://WORLD  ', group)
  call MPI_Comm_create_from_group(group, 'a tag', MPI_INFO_NULL, MPI_ERRORS_RETURN, comm)
  call MPI_Comm_size(comm, at)
  call show('from a session', at == size)
  call MPI_Comm_free(comm)
  call MPI_Group_free(group)
  call MPI_Session_finalize(session)
  call show('over', session == MPI_SESSION_NULL)

  call MPI_Info_create(info)
  call MPI_Info_set(info, 'key', 'a long value')
  length = 0
  call MPI_Info_get_string(info, 'key', length, value, flag)
  call show('length', flag .and. length == 12)
  length = 8
  call MPI_Info_get_string(info, 'key', length, value, flag)
  call show('cut', flag .and. length == 12 .and. value == 'a long v')
  call MPI_Info_free(info)
  call MPI_Info_create_env(info)
  call MPI_Info_free(info)

  call MPI_Alloc_mem(4000_MPI_ADDRESS_KIND, MPI_INFO_NULL, address)
  call c_f_pointer(address, memory, (/ 1000 /))
  memory = rank
  call MPI_Allreduce(MPI_IN_PLACE, memory, 1000, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call show('memory', all(memory == 1))
  call MPI_Free_mem(memory)

  call MPI_Buffer_attach(buffer, 4000)
  call MPI_Buffer_detach(address, at)
  call show('detached', c_associated(address, c_loc(buffer)) .and. at == 4000)
  call MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0)
  call MPI_Ibsend(rank, 1, MPI_INTEGER, 1 - rank, 4, MPI_COMM_WORLD, two(1))
  call MPI_Irecv(one, 1, MPI_INTEGER, 1 - rank, 4, MPI_COMM_WORLD, two(2))
  call MPI_Waitall(2, two, MPI_STATUSES_IGNORE)
  call MPI_F_sync_reg(one)
  call show('automatic', one == 1 - rank)
  call MPI_Buffer_detach(address, at)

  call MPI_Status_set_source(st, 5)
  call MPI_Status_set_tag(st, 6)
  call MPI_Status_f082f(st, f_status)
  call MPI_Status_f2f08(f_status, other)
  call show('statuses', f_status(MPI_SOURCE) == 5 .and. f_status(MPI_TAG) == 6 .and. other%MPI_TAG == 6)
  call MPI_Abi_get_version(major, minor)
  call show('abi', major == MPI_ABI_VERSION .and. minor == MPI_ABI_SUBVERSION)
  call MPI_Abi_get_fortran_info(info)
  call MPI_Info_get(info, 'mpi_integer_size', 8, value, flag)
  call MPI_Info_free(info)
  call show('integers', flag .and. value == '4')
  call MPI_Abi_get_fortran_booleans(4, yes, no, flag)
  call show('booleans', flag .and. yes .and. .not. no)
  call show('subarrays', .not. MPI_SUBARRAYS_SUPPORTED .and. MPI_ASYNC_PROTECTS_NONBLOCKING)
  call MPI_Pcontrol(1)
  call show('clock', MPI_Wtime() > 0 .and. MPI_Wtick() > 0 .and. MPI_Wtick() < 1)
  call MPI_Get_address(buffer(1), bytes)
  bytes = MPI_Aint_add(bytes, 40_MPI_ADDRESS_KIND)
  call show('addresses', transfer(c_loc(buffer(11)), bytes) == bytes)
  expected = storage_size(buffer) / 8
  call MPI_Sizeof(buffer, at)
  call show('size of', at == expected)
  call MPI_Sizeof('four', at)
  call show('of text', at == 4)

  call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN)
  call MPI_Comm_call_errhandler(MPI_COMM_SELF, MPI_ERR_RANK, class)
  call show('returns', class == MPI_SUCCESS)
  call MPI_Finalize()

contains

  subroutine twice(invec, inoutvec, len, datatype)
    type(c_ptr), value :: invec, inoutvec
    integer(kind=MPI_COUNT_KIND) :: len
    type(MPI_Datatype) :: datatype
    integer, pointer :: left(:), right(:)
    call c_f_pointer(invec, left, (/ len /))
    call c_f_pointer(inoutvec, right, (/ len /))
    if (datatype == MPI_INTEGER) right = left + 2 * right
  end subroutine

  subroutine show(what, holds)
    character(len=*), intent(in) :: what
    logical, intent(in) :: holds
    if (rank == 0) print '(a,l2)', what, holds
  end subroutine
end program
