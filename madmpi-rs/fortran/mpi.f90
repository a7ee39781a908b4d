module mpi
  use madmpi_base
  implicit none
  public

  include "handles.h"
  include "statuses.h"

  interface
    include "shared.f90"
    include "interfaces.f90"
  end interface

  include "shared_names.f90"
  include "names.f90"
end module
