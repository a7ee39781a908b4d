module mpi_f08
  use madmpi_base
  implicit none
  public

  include "handles.f90"
  type(MPI_Status) :: MPI_STATUS_IGNORE
  common /madmpi_status_ignore/ MPI_STATUS_IGNORE
  type(MPI_Status) :: MPI_STATUSES_IGNORE(1)
  common /madmpi_statuses_ignore/ MPI_STATUSES_IGNORE

  abstract interface
    include "callbacks.f90"
  end interface

  procedure(MPI_Comm_copy_attr_function) :: MPI_COMM_DUP_FN, MPI_COMM_NULL_COPY_FN
  procedure(MPI_Comm_delete_attr_function) :: MPI_COMM_NULL_DELETE_FN
  procedure(MPI_Type_copy_attr_function) :: MPI_TYPE_DUP_FN, MPI_TYPE_NULL_COPY_FN
  procedure(MPI_Type_delete_attr_function) :: MPI_TYPE_NULL_DELETE_FN
  procedure(MPI_Win_copy_attr_function) :: MPI_WIN_DUP_FN, MPI_WIN_NULL_COPY_FN
  procedure(MPI_Win_delete_attr_function) :: MPI_WIN_NULL_DELETE_FN
  procedure(MPI_Datarep_conversion_function) :: MPI_CONVERSION_FN_NULL
  procedure(MPI_Datarep_conversion_function_c) :: MPI_CONVERSION_FN_NULL_C

  interface
    include "shared.f90"
    include "interfaces_f08.f90"
  end interface

  include "shared_names.f90"
  include "names_f08.f90"
end module
