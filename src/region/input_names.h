// What a graph input is called, for those who read the graph. Loading it needs none of this.
#pragma once
#include <string>

#include "region/capture.h"
#include "source/source.h"

namespace pellucid::region {

struct InputName {
  // Python: eval(source, {"L": arguments and free variables, "G": globals}) gives the input. An object known by
  // identity only is named by the way capture came to it, which its guards tell; C[<…>] when they do not.
  std::string source;
  std::string identifier;  // the placeholder's target, torch._dynamo's: "G_import_mod_w"
};

class InputNames {
 public:
  InputNames();
  InputName name_of(const Capture& capture, const source::Source* source);

 private:
  source::Printer printer_;  // most inputs are parameters: the ways to them begin alike
};

// The key of a get_attr node: no other node of the graph and no global of the program has it.
std::string attribute_key(const Capture& capture, const std::string& source_text);

}  // namespace pellucid::region
