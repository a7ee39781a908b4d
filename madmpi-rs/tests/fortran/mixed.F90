! np: 2 4, peers: mpich77 mpich90 openmpi77 openmpi90
! A program in two languages: handles, statuses and attributes go from one to the other (mixed.c has the rest).
#include "interface.h"
module faces
  use, intrinsic :: iso_c_binding
  interface
    integer(c_int) function c_rank(comm) bind(C)
      import
      integer(c_int), value :: comm
    end function
    integer(c_int) function c_new_type() bind(C)
      import
    end function
    integer(c_int) function c_tag(f_status) bind(C)
      import
      integer(c_int) :: f_status(*)
    end function
    integer(c_int) function c_probe(comm, f_status) bind(C)
      import
      integer(c_int), value :: comm
      integer(c_int) :: f_status(*)
    end function
    integer(c_int) function c_ignores() bind(C)
      import
    end function
    integer(c_intptr_t) function c_attribute(comm, key) bind(C)
      import
      integer(c_int), value :: comm, key
    end function
    subroutine c_set_attribute(comm, key, number) bind(C)
      import
      integer(c_int), value :: comm, key
      integer(c_intptr_t), value :: number
    end subroutine
    integer(c_int) function c_new_key() bind(C)
      import
    end function
  end interface
end module

program mixed
  use faces
  USE_MPI
  implicit none
  INCLUDE_MPI
  integer :: rank, ierr, number, key, f_status(MPI_STATUS_SIZE)
  integer(kind=MPI_ADDRESS_KIND) :: value
  logical :: flag
  COMM :: dup
  COMM :: pair
  DATATYPE :: made
  STATUS(st)
#if INTERFACE == 8
#define NUMBER_OF(h) h%MPI_VAL
#else
#define NUMBER_OF(h) h
#endif

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  ! Processes work in pairs, and the first pair prints.
  call MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, pair, ierr)
  if (rank > 1) open (6, file='/dev/null')
  call MPI_Comm_rank(pair, rank, ierr)
  call MPI_Comm_dup(pair, dup, ierr)
  if (rank == 1) print '(a,i2)', 'rank in C', c_rank(NUMBER_OF(dup))

  ! A type that C has made.
  NUMBER_OF(made) = c_new_type()
  call MPI_Type_size(made, number, ierr)
  if (rank == 1) print '(a,i3)', 'type of C', number
  call MPI_Type_free(made, ierr)

  if (rank == 0) then
    call MPI_Send(5, 1, MPI_INTEGER, 1, 33, dup, ierr)
  else
    number = c_probe(NUMBER_OF(dup), f_status)
    print '(a,3i3)', 'status of C', number, f_status(MPI_SOURCE), f_status(MPI_TAG)
    call MPI_Recv(number, 1, MPI_INTEGER, 0, 33, dup, st, ierr)
#if INTERFACE == 8
    call MPI_Status_f082f(st, f_status, ierr)
#else
    f_status = st
#endif
    print '(a,i3)', 'tag in C', c_tag(f_status)
  end if
  if (rank == 1) print '(a,i2)', 'places', c_ignores()

  ! C finds a pointer to what Fortran has set, Fortran the pointer that C has set.
  key = c_new_key()
  call MPI_Comm_set_attr(dup, key, -123456789012_MPI_ADDRESS_KIND, ierr)
  if (rank == 1) print '(a,1x,i0)', 'of Fortran in C', c_attribute(NUMBER_OF(dup), key)
  call MPI_Comm_get_attr(dup, key, value, flag, ierr)
  if (rank == 1) print '(a,l2,1x,i0)', 'of Fortran', flag, value
  call c_set_attribute(NUMBER_OF(dup), key, 987654321098_c_intptr_t)
  call MPI_Comm_get_attr(dup, key, value, flag, ierr)
  if (rank == 1) print '(a,l2,1x,i0)', 'of C', flag, value
  call MPI_Comm_free_keyval(key, ierr)
  call MPI_Comm_free(dup, ierr)
  call MPI_Comm_free(pair, ierr)
  call MPI_Finalize(ierr)
end program
