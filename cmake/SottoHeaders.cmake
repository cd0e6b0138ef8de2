# The headers that users of the libraries include: docs/api.md shows each, and tests/install/test_headers.py holds the two
# to each other. Nothing else is installed but what these need, which goes to sotto/detail.
set(SOTTO_PUBLIC_HEADERS
  aggregate/aggregate.h
  aggregate/presets.h
  aggregate/recipe.h
  aggregate/vector_averager.h
  aggregate/vector_gossiper.h
  codec/codec.h
  codec/gradient_file.h
  codec/measure.h
  codec/stages.h
  comm/communicator.h
  comm/mailbox.h
  comm/shaped.h
  comm/threads.h
  comm/world.h
  core/error.h
  core/layout.h
  core/state_file.h
  core/thread_pool.h
  core/version.h
  topology/given_graphs.h
  topology/mixing.h
  topology/table.h)
# Those of a build with LibTorch.
set(SOTTO_PUBLIC_TORCH_HEADERS
  comm/process_group.h
  comm/transport.h
  model/own_network.h)
