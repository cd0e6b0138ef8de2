#pragma once

#include "app/launch/remote.h"
#include "sotto/core/options.h"

namespace sotto {

// The flags of commands that reach other machines.
struct SshFlags {
  std::string ssh = "ssh";
  std::string remote_sotto;
  void visit(OptionVisitor& v) {
    v.option("ssh", ssh, "how hosts are reached, such as \"ssh -p 2222 -i key\"; or use ~/.ssh/config");
    v.option("remote-sotto", remote_sotto, "where sotto is on the hosts; default: at the same path as here");
  }
  Ssh read() const;
};

}  // namespace sotto
