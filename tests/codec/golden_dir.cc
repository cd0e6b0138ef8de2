// In its own source, since it depends on the folder of the clone. A compiler cache can reuse all other sources.
namespace sotto::testing {

const char* golden_dir() { return SOTTO_GOLDEN_DIR; }

}  // namespace sotto::testing
