! np: 4
! Groups and communicators, intercommunicators, names and info objects, whose strings are filled with blanks.
#include "interface.h"
program communicators
  USE_MPI
  implicit none
  INCLUDE_MPI
  integer :: rank, size, ierr, result, length, new_rank, sum, ranks(4), translated(4), ranges(3, 1), version, subversion
  integer :: keys, wide(4, 1)
  integer, parameter :: others(3, 1) = reshape((/ 1, 2, 1 /), (/ 3, 1 /))
  logical :: flag
  character(len=MPI_MAX_OBJECT_NAME) :: name
  character(len=MPI_MAX_INFO_KEY) :: key
  character(len=20) :: value
  character(len=MPI_MAX_PROCESSOR_NAME) :: machine
  COMM :: half, new, inter, merged, again
  GROUP :: world, odd, first, both
  INFO :: hints, copy
  REQUEST :: request

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierr)

  call MPI_Comm_split(MPI_COMM_WORLD, modulo(rank, 2), -rank, half, ierr)
  call MPI_Comm_rank(half, new_rank, ierr)
  call MPI_Allreduce(rank, sum, 1, MPI_INTEGER, MPI_SUM, half, ierr)
  call show('split', (/ new_rank, sum /))
  call MPI_Comm_dup(half, new, ierr)
  call MPI_Comm_compare(half, new, result, ierr)
  call show('congruent', (/ merge(1, 0, result == MPI_CONGRUENT) /))
  call MPI_Comm_free(new, ierr)
  call show('freed', (/ merge(1, 0, new == MPI_COMM_NULL) /))
  call MPI_Comm_split(MPI_COMM_WORLD, merge(MPI_UNDEFINED, 0, rank == 0), 0, new, ierr)
  call show('left out', (/ merge(1, 0, new == MPI_COMM_NULL) /))
  if (new /= MPI_COMM_NULL) call MPI_Comm_free(new, ierr)

  ! In the background: its handle is there when the request is over, in its place and not beside it.
  call duplicate(half)

  call MPI_Comm_group(MPI_COMM_WORLD, world, ierr)
  call MPI_Group_incl(world, 2, (/ 3, 1 /), odd, ierr)
  ranges(:, 1) = (/ 0, 3, 3 /)
  call MPI_Group_range_incl(world, 1, ranges, first, ierr)
  ! It is only read: a constant will do, and so will a section that does not lie in one piece.
  call MPI_Group_free(first, ierr)
  call MPI_Group_range_excl(world, 1, others, first, ierr)
  call MPI_Group_free(first, ierr)
  wide(1:3, 1) = ranges(:, 1)
  wide(4, 1) = 99
  call MPI_Group_range_incl(world, 1, wide(1:3, :), first, ierr)
  call MPI_Group_union(odd, first, both, ierr)
  ranks = (/ 0, 1, 2, 3 /)
  call MPI_Group_translate_ranks(world, 4, ranks, both, translated, ierr)
  where (translated == MPI_UNDEFINED) translated = -1
  call show('union', translated)
  call MPI_Group_compare(both, world, result, ierr)
  call show('unequal', (/ merge(1, 0, result == MPI_UNEQUAL) /))
  call MPI_Comm_create(MPI_COMM_WORLD, odd, new, ierr)
  if (new /= MPI_COMM_NULL) then
    call MPI_Comm_rank(new, new_rank, ierr)
    if (new_rank /= (3 - rank) / 2) print *, 'create', rank, new_rank
    call MPI_Comm_free(new, ierr)
  end if
  if (modulo(rank, 2) == 1) then
    call MPI_Comm_create_group(MPI_COMM_WORLD, odd, 5, new, ierr)
    call MPI_Comm_size(new, result, ierr)
    if (result /= 2) print *, 'create_group', result
    call MPI_Comm_free(new, ierr)
  end if
  call MPI_Group_free(odd, ierr)
  call MPI_Group_free(first, ierr)
  call MPI_Group_free(both, ierr)
  call MPI_Group_free(world, ierr)

  call MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, merge(3, 2, modulo(rank, 2) == 0), 9, inter, ierr)
  call MPI_Comm_test_inter(inter, flag, ierr)
  call MPI_Comm_remote_size(inter, result, ierr)
  call show('inter', (/ merge(1, 0, flag), result /))
  call MPI_Allreduce(rank, sum, 1, MPI_INTEGER, MPI_SUM, inter, ierr)
  call show('of the others', (/ sum /))
  call MPI_Intercomm_merge(inter, modulo(rank, 2) == 0, merged, ierr)
  call MPI_Comm_rank(merged, new_rank, ierr)
  call show('merged', (/ new_rank /))

  call MPI_Comm_set_name(half, 'half of it   ', ierr)
  name = 'xxxxxxxxxxxxxxxxxxxxxxxxx'
  call MPI_Comm_get_name(half, name, length, ierr)
  if (rank == 0) print '(3a,i0,l2)', '[', name(1:14), '] ', length, name(15:) == ' '
  call MPI_Comm_get_name(MPI_COMM_WORLD, name, length, ierr)
  if (rank == 0) print '(3a)', '[', name(1:length), ']'

  call MPI_Info_create(hints, ierr)
  call MPI_Info_set(hints, '  key one ', '  value of it  ', ierr)
  call MPI_Info_set(hints, 'two', '2', ierr)
  call MPI_Info_get(hints, 'key one', 20, value, flag, ierr)
  if (rank == 0) print '(l1,3a)', flag, ' [', value, ']'
  call MPI_Info_get(hints, 'none', 20, value, flag, ierr)
  call MPI_Info_get_valuelen(hints, 'key one  ', length, flag, ierr)
  call MPI_Info_get_nkeys(hints, keys, ierr)
  call show('lengths', (/ length, keys /))
  call MPI_Info_get_nthkey(hints, 1, key, ierr)
  if (rank == 0) print '(a,l2)', 'a key', key == 'two' .or. key == 'key one'
  call MPI_Info_delete(hints, ' two ', ierr)
  call MPI_Info_dup(hints, copy, ierr)
  call MPI_Info_get_nkeys(copy, keys, ierr)
  call show('keys', (/ keys /))
  call MPI_Comm_dup_with_info(half, hints, again, ierr)
  call MPI_Info_free(hints, ierr)
  call MPI_Info_free(copy, ierr)
  call show('info freed', (/ merge(1, 0, copy == MPI_INFO_NULL) /))
  call MPI_Comm_free(again, ierr)

  call MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, new, ierr)
  call MPI_Comm_size(new, result, ierr)
  call show('one machine', (/ result /))
  call MPI_Comm_free(new, ierr)
  call MPI_Get_processor_name(machine, length, ierr)
  flag = len_trim(machine) == length .and. length > 0
  call MPI_Get_version(version, subversion, ierr)
  call show('known', (/ merge(1, 0, flag), merge(1, 0, version == MPI_VERSION .and. subversion == MPI_SUBVERSION) /))
  call MPI_Comm_free(inter, ierr)
  call MPI_Comm_free(merged, ierr)
  call MPI_Comm_free(half, ierr)
  call MPI_Finalize(ierr)

contains

  subroutine duplicate(old)
    COMM, intent(in) :: old
    COMM, asynchronous :: new(3)
    integer :: members
    new = MPI_COMM_SELF
    call MPI_Comm_idup(old, new(2), request, ierr)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
    call MPI_Comm_size(new(2), members, ierr)
    flag = new(1) == MPI_COMM_SELF .and. new(3) == MPI_COMM_SELF
    call show('in the background', (/ members, merge(1, 0, flag) /))
    call MPI_Comm_free(new(2), ierr)
  end subroutine

  subroutine show(what, values)
    character(len=*), intent(in) :: what
    integer, intent(in) :: values(:)
    if (rank == 0) print '(a,18(1x,i0))', what, values
  end subroutine
end program
