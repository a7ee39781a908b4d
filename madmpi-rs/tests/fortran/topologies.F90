! np: 4, peers: openmpi mpich77 mpich90
! Cartesian and general graphs, weights that are known by their addresses, collectives of neighbours.
#include "interface.h"
program topologies
  USE_MPI
  implicit none
  INCLUDE_MPI
  integer :: rank, ierr, dims(2), coords(2), source, dest, kind, row, sum, values(8), at, count, ins, outs
  integer :: sources(4), destinations(4), weights(4), out_weights(4), place, ones(4)
  integer(kind=MPI_ADDRESS_KIND) :: offsets(4)
  logical :: periods(2), remain(2), weighted
  COMM :: grid, line, graph
  DATATYPE :: types(4)

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  dims = 0
  call MPI_Dims_create(4, 2, dims, ierr)
  call show('dims', dims)
  periods = (/ .true., .false. /)
  call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, .false., grid, ierr)
  call MPI_Topo_test(grid, kind, ierr)
  call MPI_Cartdim_get(grid, count, ierr)
  call show('cart', (/ merge(1, 0, kind == MPI_CART), count /))
  periods = .false.
  call MPI_Cart_get(grid, 2, dims, periods, coords, ierr)
  if (rank == 0) print '(a,2l2,2i3)', 'get', periods, coords
  call MPI_Cart_coords(grid, 3, 2, coords, ierr)
  call MPI_Cart_rank(grid, (/ 1, 0 /), place, ierr)
  call show('coords', (/ coords, place /))
  call MPI_Cart_shift(grid, 0, 1, source, dest, ierr)
  call show('around', (/ source, dest /))
  call MPI_Cart_shift(grid, 1, 1, source, dest, ierr)
  call show('along', (/ merge(1, 0, source == MPI_PROC_NULL), dest /))
  remain = (/ .false., .true. /)
  call MPI_Cart_sub(grid, remain, line, ierr)
  call MPI_Allreduce(rank, sum, 1, MPI_INTEGER, MPI_SUM, line, ierr)
  call show('line', (/ sum /))

  values = -1
  call MPI_Neighbor_allgather(rank, 1, MPI_INTEGER, values, 1, MPI_INTEGER, grid, ierr)
  call show('neighbours', values(1:4))
  types = MPI_INTEGER
  ones = 1
  offsets = (/ (4_MPI_ADDRESS_KIND * at, at = 0, 3) /)
  values(1:4) = -1
  call MPI_Neighbor_alltoallw((/ 10, 11, 12, 13 /) + 100 * rank, ones, offsets, types, values, ones, offsets, types, grid, ierr)
  ! Both neighbours around are one process: libraries differ in which of its two messages comes first.
  call show('alltoallw', (/ minval(values(1:2)), maxval(values(1:2)), values(3:4) /))
  call MPI_Comm_free(line, ierr)
  call MPI_Comm_free(grid, ierr)

  call MPI_Graph_create(MPI_COMM_WORLD, 4, (/ 1, 3, 5, 6 /), (/ 1, 0, 2, 1, 3, 2 /), .false., graph, ierr)
  call MPI_Graphdims_get(graph, count, sum, ierr)
  call MPI_Graph_get(graph, 4, 6, sources, values, ierr)
  call show('graph', (/ count, sum, sources, values(1:6) /))
  call MPI_Graph_neighbors_count(graph, 1, count, ierr)
  call MPI_Graph_neighbors(graph, 1, count, values, ierr)
  call show('of rank 1', values(1:count))
  call MPI_Comm_free(graph, ierr)

  ! A ring: from the left, to the right.
  sources(1) = modulo(rank - 1, 4)
  destinations(1) = modulo(rank + 1, 4)
  call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, sources, MPI_UNWEIGHTED, 1, destinations, MPI_UNWEIGHTED, &
    MPI_INFO_NULL, .false., graph, ierr)
  call MPI_Dist_graph_neighbors_count(graph, ins, outs, weighted, ierr)
  if (rank == 0) print '(a,2i2,l2)', 'ring', ins, outs, weighted
  call MPI_Neighbor_alltoall(rank * 3, 1, MPI_INTEGER, place, 1, MPI_INTEGER, graph, ierr)
  call show('from the left', (/ place /))
  types(2:) = MPI_DATATYPE_NULL
  call MPI_Neighbor_alltoallw(rank + 50, ones, offsets, types, values, ones, offsets, types, graph, ierr)
  call show('and again', values(1:1))
  call MPI_Comm_free(graph, ierr)

  weights(1) = 5 + rank
  out_weights(1) = 5 + destinations(1)
  call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, sources, weights, 1, destinations, out_weights, MPI_INFO_NULL, &
    .false., graph, ierr)
  sources = -1
  weights = -1
  call MPI_Dist_graph_neighbors(graph, 1, sources, weights, 1, destinations, out_weights, ierr)
  call MPI_Dist_graph_neighbors_count(graph, ins, outs, weighted, ierr)
  call show('weights', (/ sources(1), weights(1), destinations(1), out_weights(1), merge(1, 0, weighted) /))
  call MPI_Comm_free(graph, ierr)

  ! Rank 0 says all of it.
  count = merge(4, 0, rank == 0)
  call MPI_Dist_graph_create(MPI_COMM_WORLD, count, (/ 0, 1, 2, 3 /), (/ 1, 1, 1, 1 /), (/ 2, 3, 0, 1 /), MPI_UNWEIGHTED, &
    MPI_INFO_NULL, .false., graph, ierr)
  call MPI_Dist_graph_neighbors(graph, 1, sources, MPI_UNWEIGHTED, 1, destinations, MPI_UNWEIGHTED, ierr)
  call show('across', (/ sources(1), destinations(1) /))
  call MPI_Comm_free(graph, ierr)
  if (rank == 0) then
    call MPI_Dist_graph_create_adjacent(MPI_COMM_SELF, 0, sources, MPI_WEIGHTS_EMPTY, 0, destinations, MPI_WEIGHTS_EMPTY, &
      MPI_INFO_NULL, .false., graph, ierr)
    call MPI_Dist_graph_neighbors_count(graph, ins, outs, weighted, ierr)
    print '(a,2i2)', 'alone', ins, outs
    call MPI_Comm_free(graph, ierr)
  end if
  call MPI_Finalize(ierr)

contains

  subroutine show(what, values)
    character(len=*), intent(in) :: what
    integer, intent(in) :: values(:)
    if (rank == 0) print '(a,20(1x,i0))', what, values
  end subroutine
end program
