! The PMPI_ names of shared.f90.
  procedure(MPI_F_sync_reg) :: PMPI_F_sync_reg
  procedure(MPI_Pcontrol) :: PMPI_Pcontrol
  procedure(MPI_Status_f2f08) :: PMPI_Status_f2f08
  procedure(MPI_Status_f082f) :: PMPI_Status_f082f
  procedure(MPI_Wtime) :: PMPI_Wtime
  procedure(MPI_Wtick) :: PMPI_Wtick
  procedure(MPI_Aint_add) :: PMPI_Aint_add
  procedure(MPI_Aint_diff) :: PMPI_Aint_diff
  interface PMPI_Sizeof
    procedure MPI_Sizeof
  end interface
