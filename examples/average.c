/* Processes average a few numbers. With an installed sotto: `cc average.c -lsotto -o average`; then, at once,
 * `./average 127.0.0.1 29500 0 3`, `./average 127.0.0.1 29500 1 3` and `./average 127.0.0.1 29500 2 3`. On several
 * machines give all of them the address of the first one, and the same file of `sotto secret new` at the end. */
#include <sotto/capi/sotto.h>
#include <stdio.h>
#include <stdlib.h>

static void check(sotto_status status) {
  if (status == SOTTO_OK) return;
  fprintf(stderr, "average: %s\n", sotto_last_error(0));
  exit(1);
}

int main(int argc, char** argv) {
  if (argc < 5) return fputs("usage: average HOST PORT RANK RANKS [SECRET]\n", stderr), 2;
  const int rank = atoi(argv[3]), ranks = atoi(argv[4]);
  sotto_store store;
  const sotto_group_options options = {.bytes = sizeof(options), .near_host = argv[1]};
  sotto_group* group = NULL;
  check(sotto_store_open(argv[1], (uint16_t)atoi(argv[2]), rank, ranks, argc > 5 ? argv[5] : NULL, 0, &store));
  check(sotto_group_create(&store, rank, ranks, &options, &group));
  float values[2] = {(float)rank, 1};
  const int64_t count = 2;
  const sotto_tensor tensor = {values, SOTTO_F32, 1, &count, NULL};
  check(sotto_aggregate(group, &tensor, NULL));
  printf("%g %g\n", values[0], values[1]);
  sotto_group_free(group);
  return 0;
}
