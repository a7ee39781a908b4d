! Types and constants of both modules.
module madmpi_base
  use, intrinsic :: iso_c_binding, only: madmpi_c_ptr => c_ptr
  implicit none
  public

  include "places.h"
  include "numbers.h"
  logical, parameter :: MPI_ASYNC_PROTECTS_NONBLOCKING = .true.

  type, bind(C) :: MPI_Status
    integer :: MPI_SOURCE, MPI_TAG, MPI_ERROR
    integer, private :: MPI_internal(5)
  end type
  include "types.f90"
contains
  include "operators.f90"
end module
