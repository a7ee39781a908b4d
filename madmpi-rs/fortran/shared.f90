! Procedures of both modules that a table does not describe.
    subroutine MPI_Sizeof(x, size, ierror) bind(C, name="madmpi_sizeof")
      import
      type(*), dimension(..), intent(in) :: x
      integer, intent(out) :: size
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine MPI_F_sync_reg(buf)
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: buf
      type(*), dimension(*), asynchronous :: buf
    end subroutine
    subroutine MPI_Pcontrol(level)
      integer, intent(in) :: level
    end subroutine
    subroutine MPI_Status_f2f08(f_status, f08_status, ierror)
      import
      integer, intent(in) :: f_status(MPI_STATUS_SIZE)
      type(MPI_Status), intent(out) :: f08_status
      integer, optional, intent(out) :: ierror
    end subroutine
    subroutine MPI_Status_f082f(f08_status, f_status, ierror)
      import
      type(MPI_Status), intent(in) :: f08_status
      integer, intent(out) :: f_status(MPI_STATUS_SIZE)
      integer, optional, intent(out) :: ierror
    end subroutine
    function MPI_Wtime() result(seconds)
      double precision :: seconds
    end function
    function MPI_Wtick() result(seconds)
      double precision :: seconds
    end function
    function MPI_Aint_add(base, disp) result(sum)
      import
      integer(kind=MPI_ADDRESS_KIND), intent(in) :: base, disp
      integer(kind=MPI_ADDRESS_KIND) :: sum
    end function
    function MPI_Aint_diff(addr1, addr2) result(difference)
      import
      integer(kind=MPI_ADDRESS_KIND), intent(in) :: addr1, addr2
      integer(kind=MPI_ADDRESS_KIND) :: difference
    end function
