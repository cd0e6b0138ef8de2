// A source of its own, since only this one depends on the folder of the clone: a compiler cache knows all others.
namespace sotto::testing {

const char* golden_dir() { return SOTTO_GOLDEN_DIR; }

}  // namespace sotto::testing
