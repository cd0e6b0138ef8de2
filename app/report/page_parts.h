#pragma once

#include <string_view>

// The files of page/ and uplot/, which CMake puts into the program (page_parts.cc.in).
namespace sotto::page_parts {

extern const std::string_view style, script, uplot_style, uplot_script, uplot_license;

}  // namespace sotto::page_parts
