// What one capture knows: data and guarded reads. It never runs code of the program; the rooms above do that, and write
// here what they read, wrote and computed.
#pragma once
#include <memory>
#include <vector>

#include "base/reasons.h"
#include "region/attribute_writes.h"
#include "region/capture.h"
#include "region/deferred.h"
#include "region/draws.h"
#include "region/drops.h"
#include "region/foresight.h"
#include "region/frame.h"
#include "region/function_modes.h"
#include "region/generators.h"
#include "region/grad_flags.h"
#include "region/inner_hooks.h"
#include "region/iterators.h"
#include "region/late_items.h"
#include "region/lookups.h"
#include "region/numbers.h"
#include "region/provenance.h"
#include "region/reads.h"
#include "region/recorder.h"
#include "region/shadows.h"
#include "region/unbacked.h"

namespace pellucid::region {

class BodyAudit;

struct Region {
  Region(PyFunctionObject* function, PyCodeObject* code);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  std::unique_ptr<Capture> capture;  // what it becomes; finish() gives it away
  Frame* top = nullptr;              // the frame that runs; whoever runs frames sets it
  const char* doing = "runs";        // what the current operation is, for guard messages
  std::int64_t steps = 0;            // instructions executed so far
  // The program asks something that objects and frames that are built again answer differently.
  bool cannot_be_built_again = false;
  // A step of the program before which the region has to end instead, for what was asked behind it; -1: none. The next
  // region begins with it.
  std::int64_t ends_before = -1;
  std::int64_t outside_writes = 0;    // how often something that existed before was changed, or a later call asked for
  std::int64_t reads_of_written = 0;  // how often something that existed before and was changed was read
  std::vector<Effect> closed_frames;  // of frame objects from outside
  std::vector<std::unique_ptr<BodyAudit>> audits;       // of the open bodies
  std::vector<std::unique_ptr<BodyAudit>> late_audits;  // of bodies that run again behind the region

  Provenance provenance{*this};
  Shadows shadows{*this};
  Reads reads{*this};
  Lookups lookups{*this};
  Unbacked unbacked{*this};
  LateItems late_items{*this};
  Numbers numbers{*this};
  AttributeWrites attributes{*this};
  Iterators iterators{*this};
  Generators generators{*this};
  Recorder recorder{*this};
  GradFlags grad_flags{*this};
  Foresight foresight{*this};
  FunctionModes function_modes{*this};
  Deferred deferred{*this};
  InnerHooks inner_hooks{*this};
  Drops drops{*this};
  Draws draws{*this};
};

// The region ends and gives `result`: net effects, aliasing guards. The region is done afterwards.
std::unique_ptr<Capture> finish(Region& region, py::Owned<> result);
// The net changes of containers, attributes and cells. `as_copies`: the region goes on changing them.
void add_changes(Region& region, std::vector<Effect>& out, bool as_copies);

}  // namespace pellucid::region
