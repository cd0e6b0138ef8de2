#include "sotto/capi/status.h"

#include <new>
#include <utility>

#include "sotto/core/version.h"

namespace sotto::capi {
namespace {

// Also of an error for which there is no memory.
struct LastError {
  std::string plain, marked;
};
thread_local LastError last;

std::pair<sotto_status, LastError> described(const std::exception_ptr& error) {
  const auto plain = [](sotto_status status, const std::exception& thrown) {
    return std::pair(status, LastError{thrown.what(), thrown.what()});
  };
  try {
    std::rethrow_exception(error);
  } catch (const ConfigError& thrown) {
    return {SOTTO_CONFIG_ERROR, {thrown.what(), thrown.text([](auto... parts) { return named(parts...); })}};
  } catch (const WireError& thrown) {
    return plain(SOTTO_WIRE_ERROR, thrown);
  } catch (const CommError& thrown) {
    return plain(SOTTO_COMM_ERROR, thrown);
  } catch (const FileError& thrown) {
    return plain(SOTTO_FILE_ERROR, thrown);
  } catch (const NumericError& thrown) {
    return plain(SOTTO_NUMERIC_ERROR, thrown);
  } catch (const std::exception& thrown) {
    return plain(SOTTO_INTERNAL_ERROR, thrown);
  }
}

}  // namespace

sotto_status remember(const std::exception_ptr& error) noexcept {
  try {
    auto [status, text] = described(error);
    last = std::move(text);
    return status;
  } catch (...) {  // no memory for the text
    last.plain.clear(), last.marked.clear();
    return SOTTO_INTERNAL_ERROR;
  }
}

}  // namespace sotto::capi

unsigned sotto_interface(void) { return SOTTO_INTERFACE; }

const char* sotto_version(void) { return sotto::version.data(); }

const char* sotto_last_error(int marked) {
  return (marked != 0 ? sotto::capi::last.marked : sotto::capi::last.plain).c_str();
}
