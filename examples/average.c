/* Processes average a few numbers. With an installed sotto: `cc average.c -lsotto -o average`; then, at once,
 * `./average 127.0.0.1 29500 0 3`, `./average 127.0.0.1 29500 1 3` and `./average 127.0.0.1 29500 2 3`. On several
 * machines give all of them the address of the first one, and a file with 32 random bytes as the fifth argument. */
#include <sotto/capi/sotto.h>
#include <stdio.h>
#include <stdlib.h>

static void check(sotto_status status) {
  if (status == SOTTO_OK) return;
  fprintf(stderr, "average: %s\n", sotto_last_error(0));
  exit(1);
}

int main(int argc, char** argv) {
  if (argc < 5) {
    fputs("usage: average HOST PORT RANK RANKS [SECRET]\n", stderr);
    return 2;
  }
  const int rank = atoi(argv[3]);
  unsigned char secret[32];
  FILE* const file = argc > 5 ? fopen(argv[5], "rb") : NULL;
  if (argc > 5 && (file == NULL || fread(secret, 1, sizeof(secret), file) != sizeof(secret))) {
    fprintf(stderr, "average: %s holds no secret\n", argv[5]);
    return 2;
  }

  sotto_group* group = NULL;
  check(sotto_group_meet(argv[1], (uint16_t)atoi(argv[2]), rank, atoi(argv[4]), file ? secret : NULL, NULL, &group));
  float values[2] = {(float)rank, 1};
  const int64_t count = 2;
  const sotto_tensor tensor = {values, SOTTO_F32, 1, &count, NULL};
  check(sotto_aggregate(group, &tensor, NULL));
  printf("%g %g\n", values[0], values[1]);
  sotto_group_free(group);
  return 0;
}
