#include "app/data/download.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <system_error>

#include "app/data/unpack.h"
#include "sotto/core/error.h"
#include "sotto/core/expression.h"
#include "sotto/core/file.h"
#include "sotto/core/open_file.h"

namespace sotto {
namespace {

namespace fs = std::filesystem;

// The state of one request, for the callbacks of libcurl.
struct Transfer {
  CURL* curl;
  const Download& source;
  const fs::path& path;
  const Progress& progress;
  Descriptor part{};
  std::uint64_t start;         // the length of the part before this request
  std::uint64_t received = 0;  // bytes that this request has appended
  bool body_begun = false;
  std::string failure{};  // why the part cannot be written; empty: it can
  std::string refusal{};  // why the answer cannot be used; empty: it can
  bool cancelled = false;

  long status() const {
    long code = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &code);
    return code;
  }

  // Checks status and headers of the answer before its first byte is written.
  bool accept() {
    body_begun = true;
    if (status() == 200 && start > 0) {  // the server ignores ranges: start over
      start = 0;
      return ::ftruncate(part.get(), 0) == 0 || fail();
    }
    if (status() == 206) {
      curl_header* header = nullptr;
      if (curl_easy_header(curl, "Content-Range", 0, CURLH_HEADER, -1, &header) != CURLHE_OK ||
          !std::string_view(header->value).starts_with(fmt::format("bytes {}-", start))) {
        refusal = "the server sent another range than the one it was asked for";
        return false;
      }
    }
    return true;
  }

  bool take(const char* data, std::size_t count) {
    if (status() != 200 && status() != 206) return true;  // skips the text of an error page
    if (!body_begun && !accept()) return false;
    if (start + received + count > source.bytes) {
      refusal = fmt::format("the server sends more than the {} bytes that the file has", source.bytes);
      return false;
    }
    received += count;
    return append(data, count);
  }

  // Functions that return false keep the reason, because libcurl calls them and no exception may pass through it.
  bool append(const char* data, std::size_t count) {
    while (count > 0) {
      const ssize_t written = ::write(part.get(), data, count);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return fail();
      data += written;
      count -= static_cast<std::size_t>(written);
    }
    return true;
  }
  bool fail() {
    failure = std::generic_category().message(errno);
    return false;
  }
};

std::size_t on_data(char* data, std::size_t size, std::size_t count, void* transfer) {
  return static_cast<Transfer*>(transfer)->take(data, size * count) ? size * count : 0;
}

int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto& t = *static_cast<Transfer*>(user);
  t.cancelled = t.progress && !t.progress(t.path, t.start + t.received, t.source.bytes);
  return t.cancelled ? 1 : 0;
}

enum class Answer : std::uint8_t { complete, cancelled, beyond_the_end };

// Requests the bytes from `start` on, and appends them to the part.
Answer request(const Download& source, const fs::path& path, const fs::path& part, std::uint64_t start,
               const Progress& progress) {
  const std::unique_ptr<CURL, void (*)(CURL*)> curl(curl_easy_init(), curl_easy_cleanup);
  if (!curl) throw FileError(fmt::format("cannot download {}: libcurl does not start", source.url));
  Transfer transfer{.curl = curl.get(), .source = source, .path = path, .progress = progress, .start = start};
  const auto require_written = [&] {
    if (!transfer.failure.empty()) {
      throw FileError(fmt::format("cannot write {}: {}", part.string(), transfer.failure));
    }
  };
  transfer.part.reset(::open(part.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!transfer.part.open()) transfer.fail();
  require_written();
  std::array<char, CURL_ERROR_SIZE> reason{};
  CURL* c = curl.get();
  curl_easy_setopt(c, CURLOPT_URL, source.url.c_str());
  curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(c, CURLOPT_MAXREDIRS, 10L);
  curl_easy_setopt(c, CURLOPT_USERAGENT, "sotto");
  curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, 30L);
  curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, 60L);
  curl_easy_setopt(c, CURLOPT_ERRORBUFFER, reason.data());
  curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_data);
  curl_easy_setopt(c, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(c, CURLOPT_XFERINFODATA, &transfer);
  // Not CURLOPT_RESUME_FROM: with it a server that knows no ranges is an error.
  if (start > 0) curl_easy_setopt(c, CURLOPT_RANGE, fmt::format("{}-", start).c_str());

  const CURLcode result = curl_easy_perform(c);
  const std::uint64_t kept = transfer.start + transfer.received;
  const auto fail = [&](std::string_view why) {
    if (kept == 0) fs::remove(part);
    const std::string next =
        kept == 0 ? "" : fmt::format("; {} of {} bytes are kept; run it again to continue", kept, source.bytes);
    throw FileError(fmt::format("cannot download {} to {}: {}{}", source.url, path.string(), why, next));
  };
  require_written();
  if (transfer.cancelled) return Answer::cancelled;
  if (!transfer.refusal.empty()) {
    fs::remove(part);
    throw FileError(fmt::format("cannot download {} to {}: {}", source.url, path.string(), transfer.refusal));
  }
  if (result != CURLE_OK) fail(reason[0] != '\0' ? reason.data() : curl_easy_strerror(result));
  const long status = transfer.status();
  if (status == 416 && start > 0) return Answer::beyond_the_end;
  if (status != 200 && status != 206) fail(fmt::format("the server answered with HTTP status {}", status));
  curl_off_t announced = -1;
  curl_easy_getinfo(c, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &announced);
  if (announced < 0 && kept < source.bytes) fail("the connection ended early");  // libcurl could not know
  return Answer::complete;
}

std::string md5_of(const fs::path& path) { return md5_hex(read_file(path)); }

// Checks length and md5 of the complete part. If they are wrong, it removes the part and throws FileError.
void check_part(const Download& source, const fs::path& path, const fs::path& part) {
  const std::uint64_t size = fs::file_size(part);
  const std::string md5 = md5_of(part);
  if (size == source.bytes && md5 == source.md5) return;
  fs::remove(part);
  throw FileError(
      fmt::format("{}: what {} sent is not the right file: {} bytes with md5 {}, expected {} with md5 {}; it "
                  "was removed",
                  path.string(), source.url, size, md5, source.bytes, source.md5));
}

struct NamedFile {
  std::string_view name;
  std::string_view md5;
  std::uint64_t bytes;
};

struct Source {
  DownloadSource set;
  std::array<NamedFile, 4> files;  // fewer: the last have no names
};
constexpr Source emnist(std::string_view name) {  // one archive of all splits
  return {{name, "https://biometrics.nist.gov/cs_links/EMNIST", "none stated (Cohen et al., 2017)"},
          {{{"gzip.zip", "58c8d27c78d21e728a6bc7b3cc06412e", 561'753'746}}}};
}
constexpr std::array sources{
    Source{{"mnist", "https://ossci-datasets.s3.amazonaws.com/mnist", "CC BY-SA 3.0 (LeCun, Cortes, Burges)"},
           {{{"train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873", 9'912'422},
             {"train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432", 28'881},
             {"t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3", 1'648'877},
             {"t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c", 4'542}}}},
    Source{{"fashion-mnist", "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com", "MIT (Zalando SE)"},
           {{{"train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26'421'880},
             {"train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe", 29'515},
             {"t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79", 4'422'102},
             {"t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310", 5'148}}}},
    Source{{"kmnist", "http://codh.rois.ac.jp/kmnist/dataset/kmnist", "CC BY-SA 4.0 (CODH, 2018)"},
           {{{"train-images-idx3-ubyte.gz", "bdb82020997e1d708af4cf47b453dcf7", 18'165'135},
             {"train-labels-idx1-ubyte.gz", "e144d726b3acfaa3e44228e80efcd344", 29'497},
             {"t10k-images-idx3-ubyte.gz", "5c965bf0a639b31b8f53240b1b52f4d7", 3'041'136},
             {"t10k-labels-idx1-ubyte.gz", "7320c461ea6c1c855c0b718fb2a4b134", 5'120}}}},
    emnist("emnist-balanced"),
    emnist("emnist-byclass"),
    emnist("emnist-bymerge"),
    emnist("emnist-digits"),
    emnist("emnist-letters"),
    emnist("emnist-mnist"),
    Source{{"cifar10", "https://www.cs.toronto.edu/~kriz", "none stated (Krizhevsky, 2009)"},
           {{{"cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530", 170'052'171}}}},
    Source{{"cifar100", "https://www.cs.toronto.edu/~kriz", "none stated (Krizhevsky, 2009)"},
           {{{"cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8", 168'513'733}}}},
    Source{{"svhn", "http://ufldl.stanford.edu/housenumbers", "for non-commercial use (Netzer et al., 2011)"},
           {{{"train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373", 182'040'794},
             {"test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3", 64'275'384}}}},
};

const Source* find_source(std::string_view name) {
  const auto found = std::ranges::find(sources, name, [](const Source& source) { return source.set.name; });
  return found == sources.end() ? nullptr : &*found;
}

}  // namespace

Fetched download(const Download& source, const fs::path& path, const Progress& progress) try {
  if (fs::exists(path) && fs::file_size(path) == source.bytes && md5_of(path) == source.md5) {
    return Fetched::already_there;
  }
  const fs::path part = path.string() + ".part";
  std::uint64_t start = fs::exists(part) ? fs::file_size(part) : 0;
  if (start > source.bytes) {  // too long for a part of this file
    fs::remove(part);
    start = 0;
  }
  if (start < source.bytes) {
    Answer answer = request(source, path, part, start, progress);
    if (answer == Answer::beyond_the_end) {
      fs::remove(part);
      answer = request(source, path, part, 0, progress);
    }
    if (answer == Answer::cancelled) return Fetched::cancelled;
  }
  check_part(source, path, part);
  fsync_path(part);
  fs::rename(part, path);
  fsync_path(path.has_parent_path() ? path.parent_path() : fs::path("."));
  return Fetched::done;
} catch (const fs::filesystem_error& error) {
  throw FileError(fmt::format("cannot write {}: {}", (error.path1().empty() ? path : error.path1()).string(),
                              error.code().message()));
}

const DownloadSource* find_download(std::string_view name) {
  const Source* found = find_source(name);
  return found == nullptr ? nullptr : &found->set;
}

Fetched get_dataset(std::string_view name, const fs::path& folder, std::string_view base_url,
                    const Progress& progress) {
  const Source* source = find_source(name);
  if (source == nullptr) {
    std::vector<std::string_view> known;
    known.reserve(sources.size());
    for (const Source& one : sources) known.push_back(one.set.name);
    throw ConfigError("cannot download: " + unknown_name("data set", name, known));
  }
  std::string base(base_url.empty() ? source->set.address : base_url);
  if (!base.starts_with("http://") && !base.starts_with("https://")) {
    throw ConfigError(named("url", base) + ": must begin with http:// or https://");
  }
  while (base.ends_with('/')) base.pop_back();
  make_folder(folder);
  Fetched all = Fetched::already_there;
  for (const NamedFile& file : source->files) {
    if (file.name.empty()) break;
    const Download wanted{fmt::format("{}/{}", base, file.name), std::string(file.md5), file.bytes};
    const Fetched fetched = download(wanted, folder / file.name, progress);
    if (fetched == Fetched::cancelled) return fetched;
    const fs::path path = folder / file.name;
    if (file.name.ends_with(".tar.gz")) {
      unpack_tar(
          path, [](std::string_view member) { return member.ends_with(".bin"); }, folder);
    }
    if (file.name.ends_with(".zip")) {
      const std::string own = fmt::format("{}-", name);  // the files of this split
      unpack_zip(
          path, [&](std::string_view member) { return member.starts_with(own); }, folder);
    }
    if (fetched == Fetched::done) all = fetched;
  }
  return all;
}

}  // namespace sotto
