# The headers that users of the libraries include: docs/api.md shows each, and tests/install/test_headers.py holds the two
# to each other. Those of app/ are installed below sotto/, too. Nothing else is installed but what these need, which goes to sotto/detail.
set(SOTTO_PUBLIC_HEADERS
  sotto/aggregate/aggregate.h
  sotto/aggregate/presets.h
  sotto/aggregate/recipe.h
  sotto/aggregate/vector_averager.h
  sotto/aggregate/vector_gossiper.h
  sotto/capi/sotto.h
  sotto/codec/codec.h
  sotto/codec/measure.h
  sotto/codec/stages.h
  sotto/comm/communicator.h
  sotto/comm/mailbox.h
  sotto/comm/emulated/shaped.h
  sotto/comm/emulated/threads.h
  sotto/comm/group/tcp_store.h
  sotto/comm/world.h
  sotto/core/error.h
  sotto/core/layout.h
  sotto/core/state_file.h
  sotto/core/thread_pool.h
  sotto/core/version.h
  sotto/topology/given_graphs.h
  sotto/topology/mixing.h
  sotto/topology/table.h)
# Those of a build with LibTorch.
set(SOTTO_PUBLIC_TORCH_HEADERS
  adapters/c10d/process_group.h
  adapters/c10d/transports.h
  app/model/own_network.h)
