! np: 2 4
! Procedures of the program that MPI calls: operators, attributes of communicators and datatypes, error handlers.
#include "interface.h"
module procedures
#if INTERFACE == 8
  use, intrinsic :: iso_c_binding
#endif
  USE_MPI
  implicit none
#if INTERFACE == 77
  include 'mpif.h'
#endif
  integer :: copies = 0, deletes = 0, handled = 0
contains

#if INTERFACE == 8
  ! Composes affine maps: not commutative.
  subroutine compose(invec, inoutvec, len, datatype)
    type(c_ptr), value :: invec, inoutvec
    integer :: len
    type(MPI_Datatype) :: datatype
    integer, pointer :: left(:, :), right(:, :)
    call c_f_pointer(invec, left, (/ 2, len /))
    call c_f_pointer(inoutvec, right, (/ 2, len /))
    right(2, :) = left(1, :) * right(2, :) + left(2, :)
    right(1, :) = left(1, :) * right(1, :)
  end subroutine
#else
  subroutine compose(left, right, len, datatype)
    integer :: len, left(2, len), right(2, len), datatype
    right(2, :) = left(1, :) * right(2, :) + left(2, :)
    right(1, :) = left(1, :) * right(1, :)
  end subroutine
#endif

  subroutine copy_comm(comm, keyval, extra_state, value_in, value_out, flag, ierror)
    COMM :: comm
    integer :: keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: extra_state, value_in, value_out
    logical :: flag
    copies = copies + 1
    value_out = value_in + extra_state
    flag = value_in /= 13
    ierror = MPI_SUCCESS
  end subroutine

  subroutine delete_comm(comm, keyval, value, extra_state, ierror)
    COMM :: comm
    integer :: keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: value, extra_state
    deletes = deletes + int(value / 10000000000_MPI_ADDRESS_KIND)
    ierror = MPI_SUCCESS
  end subroutine

  subroutine delete_type(datatype, keyval, value, extra_state, ierror)
    DATATYPE :: datatype
    integer :: keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: value, extra_state
    deletes = deletes + 100 * int(value)
    ierror = MPI_SUCCESS
  end subroutine

  subroutine handle(comm, error_code)
    COMM :: comm
    integer :: error_code
    integer :: class, ierr
    call MPI_Error_class(error_code, class, ierr)
    if (class == MPI_ERR_RANK .and. comm == MPI_COMM_WORLD) handled = handled + 1
  end subroutine
end module

program callbacks
  use procedures
  implicit none
  integer :: rank, ierr, key, same_key, none_key, old, type_key, map(2), total(2), class, code, length
  integer(kind=MPI_ADDRESS_KIND) :: value, extra, huge_value
  logical :: flag, commutes
  character(len=MPI_MAX_ERROR_STRING) :: text
  COMM :: new, newer
  DATATYPE :: pair, copy
  OPERATOR :: op
  ERRHANDLER :: handler, before

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)

  call MPI_Type_contiguous(2, MPI_INTEGER, pair, ierr)
  call MPI_Type_commit(pair, ierr)
  call MPI_Op_create(compose, .false., op, ierr)
  call MPI_Op_commutative(op, commutes, ierr)
  ! From the third process on maps change nothing.
  map = merge((/ rank + 2, 10 * rank + 1 /), (/ 1, 0 /), rank < 2)
  call MPI_Allreduce(map, total, 1, pair, op, MPI_COMM_WORLD, ierr)
  if (rank == 0) print '(a,l2,2(1x,i0))', 'operator', commutes, total
  map = (/ 3, 1 /)
  total = (/ 1, 5 /)
  call MPI_Reduce_local(map, total, 1, pair, op, ierr)
  if (rank == 0) print '(a,2(1x,i0))', 'local', total
  call MPI_Op_free(op, ierr)
  if (rank == 0) print '(a,l2)', 'freed', op == MPI_OP_NULL

  ! Values are as wide as an address.
  huge_value = 30000000000_MPI_ADDRESS_KIND
  extra = 7
  call MPI_Comm_create_keyval(copy_comm, delete_comm, key, extra, ierr)
  call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, same_key, extra, ierr)
  call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, none_key, extra, ierr)
  call MPI_Comm_dup(MPI_COMM_WORLD, new, ierr)
  call MPI_Comm_get_attr(new, key, value, flag, ierr)
  if (rank == 0) print '(a,l2)', 'not set', flag
  call MPI_Comm_set_attr(new, key, huge_value, ierr)
  call MPI_Comm_set_attr(new, same_key, -5_MPI_ADDRESS_KIND, ierr)
  call MPI_Comm_set_attr(new, none_key, 6_MPI_ADDRESS_KIND, ierr)
  call MPI_Comm_get_attr(new, key, value, flag, ierr)
  if (rank == 0) print '(a,l2,1x,i0)', 'set', flag, value
  call MPI_Comm_dup(new, newer, ierr)
  call MPI_Comm_get_attr(newer, key, value, flag, ierr)
  if (rank == 0) print '(a,l2,2(1x,i0))', 'copied', flag, value, copies
  call MPI_Comm_get_attr(newer, same_key, value, flag, ierr)
  if (rank == 0) print '(a,l2,1x,i0)', 'the same', flag, value
  call MPI_Comm_get_attr(newer, none_key, value, flag, ierr)
  if (rank == 0) print '(a,l2)', 'none', flag
  call MPI_Comm_delete_attr(newer, key, ierr)
  if (rank == 0) print '(a,1x,i0)', 'deleted', deletes
  call MPI_Comm_set_attr(new, key, 13_MPI_ADDRESS_KIND, ierr)
  call MPI_Comm_free(newer, ierr)
  call MPI_Comm_dup(new, newer, ierr)
  call MPI_Comm_get_attr(newer, key, value, flag, ierr)
  if (rank == 0) print '(a,l2,2(1x,i0))', 'replaced', flag, copies, deletes
  call MPI_Comm_free(newer, ierr)
  call MPI_Comm_free(new, ierr)
  call MPI_Comm_free_keyval(key, ierr)
  if (rank == 0) print '(a,l2)', 'key freed', key == MPI_KEYVAL_INVALID
  call MPI_Comm_free_keyval(same_key, ierr)
  call MPI_Comm_free_keyval(none_key, ierr)

  call MPI_Type_create_keyval(MPI_TYPE_DUP_FN, delete_type, type_key, 0_MPI_ADDRESS_KIND, ierr)
  call MPI_Type_set_attr(pair, type_key, 4_MPI_ADDRESS_KIND, ierr)
  call MPI_Type_dup(pair, copy, ierr)
  call MPI_Type_get_attr(copy, type_key, value, flag, ierr)
  call MPI_Type_free(copy, ierr)
  if (rank == 0) print '(a,l2,2(1x,i0))', 'type', flag, value, deletes
  call MPI_Type_free(pair, ierr)
  call MPI_Type_free_keyval(type_key, ierr)

  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag, ierr)
  if (rank == 0) print '(a,l2,l2)', 'greatest tag', flag, value >= 32767
  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, value, flag, ierr)
  if (rank == 0) print '(a,l2)', 'clock', .not. flag .or. value == 0 .or. value == 1
#if INTERFACE != 8
  call MPI_Attr_get(MPI_COMM_WORLD, MPI_TAG_UB, old, flag, ierr)
  if (rank == 0) print '(a,l2,l2)', 'deprecated', flag, old >= 32767
  call MPI_Keyval_create(MPI_DUP_FN, MPI_NULL_DELETE_FN, key, 1, ierr)
  call MPI_Comm_dup(MPI_COMM_SELF, new, ierr)
  call MPI_Attr_put(new, key, -77, ierr)
  call MPI_Comm_dup(new, newer, ierr)
  call MPI_Attr_get(newer, key, old, flag, ierr)
  if (rank == 0) print '(a,l2,1x,i0)', 'calls', flag, old
  call MPI_Comm_free(newer, ierr)
  call MPI_Comm_free(new, ierr)
  call MPI_Keyval_free(key, ierr)
#else
  if (rank == 0) print '(a,l2,l2)', 'deprecated', .true., .true.
  if (rank == 0) print '(a,l2,1x,i0)', 'calls', .true., -77
#endif

  call MPI_Comm_create_errhandler(handle, handler, ierr)
  call MPI_Comm_get_errhandler(MPI_COMM_WORLD, before, ierr)
  if (rank == 0) print '(a,l2)', 'fatal', before == MPI_ERRORS_ARE_FATAL
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler, ierr)
  call MPI_Send(rank, 1, MPI_INTEGER, 5, 1, MPI_COMM_WORLD, ierr)
  call MPI_Error_class(ierr, class, code)
  if (rank == 0) print '(a,1x,i0,l2)', 'handled', handled, class == MPI_ERR_RANK
  call MPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_RANK, ierr)
  if (rank == 0) print '(a,1x,i0)', 'called', handled
  call MPI_Errhandler_free(handler, ierr)
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, ierr)
  call MPI_Send(rank, -1, MPI_INTEGER, 0, 1, MPI_COMM_WORLD, ierr)
  call MPI_Error_class(ierr, class, code)
  call MPI_Error_string(ierr, text, length, code)
  if (rank == 0) print '(a,l2,l2)', 'returned', class == MPI_ERR_COUNT, length > 0 .and. text(length + 1:) == ' '
  call MPI_Add_error_class(class, ierr)
  call MPI_Add_error_code(class, code, ierr)
  call MPI_Add_error_string(code, 'of our own  ', ierr)
  call MPI_Error_class(code, length, ierr)
  if (rank == 0) print '(a,l2)', 'class', length == class
  call MPI_Finalize(ierr)
end program
