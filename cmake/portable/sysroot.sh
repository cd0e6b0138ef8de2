#!/usr/bin/env bash
# sysroot.sh x86_64|aarch64: puts into build/sysroot what libsotto.so is linked with, as packages.txt says. Debian's static
# libraries of C need nothing newer than glibc 2.28; those of C++ are compiled here, since libc++ takes the place of libstdc++.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
build="$(cd "$here/../.." && pwd)/build"
processor="$1"
case "$processor" in
  x86_64) architecture=amd64 ;;
  aarch64) architecture=arm64 ;;
  *) echo "sysroot.sh: no such processor: $processor" >&2 && exit 1 ;;
esac
readonly here build processor architecture

# mirrors LABEL: those that apt uses
mirrors() {
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' "Label: $1" | sort -u
}

# download SHA256 PATH: into build/downloads
download() {
  local sha256="$1" path="$2" label=Debian mirror
  local file="$build/downloads/${path##*/}"
  ! sha256sum --status -c <<< "$sha256  $file" 2> /dev/null || return 0
  [[ $path != pool/updates/* ]] || label=Debian-Security
  for mirror in $(mirrors "$label"); do
    /usr/lib/apt/apt-helper -qq -o APT::Sandbox::User= -o Acquire::Retries=3 download-file "$mirror$path" "$file" "SHA256:$sha256" && return
  done
  echo "sysroot.sh: no mirror has $path any more; a newer version is a change of packages.txt" >&2
  return 1
}

# compile SOURCE [DEFINITION...]: a library that brings CMake files, installed into the sysroot
compile() {
  local name="$1" folder="$sysroot.sources/$1"
  mkdir -p "$folder"
  tar -x -f "$build"/downloads/"$name"_*.orig.tar.* -C "$folder" --strip-components=1
  cmake -G Ninja -S "$folder" -B "$folder/build" -DCMAKE_TOOLCHAIN_FILE="$here/$processor.cmake" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_INSTALL_LIBDIR=lib -DBUILD_SHARED_LIBS=OFF -DBUILD_TESTING=OFF "${@:2}"
  DESTDIR="$sysroot" cmake --build "$folder/build" --target install
  mkdir -p "$sysroot/usr/share/doc/$name"
  cat "$folder"/LICENSE* "$folder"/LICENSES/* > "$sysroot/usr/share/doc/$name/copyright" 2> /dev/null || true
}

sysroot="$build/sysroot/$processor"
stamp="$(cat "$here"/{packages.txt,sysroot.sh,toolchain.cmake,zig-clang} | sha256sum)"
[[ ! -f $sysroot.complete || $(< "$sysroot.complete") != "$stamp" ]] || exit 0
rm -rf "$sysroot" "$sysroot".{sources,libc,complete}
mkdir -p "$sysroot" "$build/downloads"
while read -r kind sha256 path; do
  case "$kind" in
    source) into= ;;
    all | "$architecture") into="$sysroot" ;;
    "$architecture-libc") into="$sysroot.libc" ;;
    *) continue ;;
  esac
  download "$sha256" "$path"
  [[ ! $into ]] || dpkg-deb -x "$build/downloads/${path##*/}" "$into"
done < "$here/packages.txt"
find "$sysroot" -name '*.so*' -delete # links to libraries that are not here
cp -r "$sysroot/usr/include/$processor-linux-gnu/." "$sysroot/usr/include" # Debian's own compilers know that folder

compile fmtlib -DFMT_TEST=OFF -DFMT_DOC=OFF
compile highway -DHWY_ENABLE_CONTRIB=OFF -DHWY_ENABLE_EXAMPLES=OFF
mkdir -p "$sysroot/usr/lib/cmake/hwy"
cat > "$sysroot/usr/lib/cmake/hwy/hwy-config.cmake" << 'CMAKE' # which this version does not bring
add_library(hwy::hwy STATIC IMPORTED)
set_target_properties(hwy::hwy PROPERTIES IMPORTED_LOCATION ${CMAKE_CURRENT_LIST_DIR}/../../libhwy.a
                      INTERFACE_INCLUDE_DIRECTORIES ${CMAKE_CURRENT_LIST_DIR}/../../../include)
CMAKE
compile c-blosc -DBUILD_SHARED=OFF -DBUILD_TESTS=OFF -DBUILD_FUZZERS=OFF -DBUILD_BENCHMARKS=OFF -DPREFER_EXTERNAL_LZ4=ON \
  -DPREFER_EXTERNAL_ZSTD=ON -DDEACTIVATE_ZLIB=ON -DDEACTIVATE_SNAPPY=ON
compile googletest -DBUILD_GMOCK=OFF
rm -rf "$sysroot.sources"
echo "$stamp" > "$sysroot.complete"
