#include <stdio.h>
#include <string.h>

#include "sotto/capi/sotto.h"

struct bytes {
  unsigned char data[4096];
  size_t size;
};

static void keep(void* context, const void* data, size_t size) {
  struct bytes* into = (struct bytes*)context;
  into->size = size <= sizeof into->data ? size : 0;
  memcpy(into->data, data, into->size);
}

int main(void) {
  const int64_t shape[] = {2, 3};
  float values[] = {1, 2, 3, 4, 5, 6}, decoded[6];
  const sotto_tensor tensor = {values, SOTTO_F32, 2, shape, NULL};
  const sotto_tensor into = {decoded, SOTTO_F32, 2, shape, NULL};
  struct bytes bytes;
  const sotto_sink sink = {keep, &bytes};
  sotto_codec* codec = NULL;
  int failed = sotto_interface() < SOTTO_INTERFACE;
  failed |= sotto_codec_create("none", 1, &codec) != SOTTO_OK;
  failed |= sotto_codec_encode(codec, &tensor, 1, 0, sink) != SOTTO_OK;
  failed |= sotto_codec_decode(codec, bytes.data, bytes.size, &into) != SOTTO_OK;
  failed |= memcmp(values, decoded, sizeof values) != 0;
  sotto_codec_free(codec);
  failed |= sotto_codec_create("topk(2)", 1, &codec) != SOTTO_CONFIG_ERROR;
  printf("%s\n", sotto_last_error(0));
  return failed;
}
