// What a backend cannot take, found in a capture before it is called: a graph break, or a region that ends earlier
// (restarts.h).
#pragma once
#include "region/capture.h"

namespace pellucid::runtime {

// AOTAutograd gives ordinary tensors where the program made them in an inference_mode block.
void refuse_inference_results(const region::Capture& capture, PyObject* backend);

// A compiled graph gives plain tensors, which know of no gradients but those of its inputs. No graph gives what leads
// to an alias of an input of which the region has changed whether it requires gradients.
void refuse_leaves(const region::Capture& capture, PyObject* backend);

// A tensor that moves to other memory (`tensor.data = …`) has the old one and the new one for itself in a compiled
// graph, which writes to neither (AOTAutograd takes one or the other), and what the graph gives knows of no gradients
// for it: autograd would find the new elements, or old ones.
void refuse_moved(const region::Capture& capture);

// The backward of a compiled graph runs as a whole (region/inner_hooks.h).
void refuse_inner_hooks(region::Capture& capture);

// A compiled graph gives no views with a backward of their own (function_views.h).
void refuse_lost_functions(const region::Capture& capture, PyObject* backend);

// What pellucid.export gives is a graph alone: nothing happens beside it. A backend that drops effects is told of them;
// the state of torch is switched in the graph itself, so that is refused all the same.
void refuse_effects(region::Capture& capture, PyObject* backend);

// The call behind the graph that notes where parts that run in the backward pass read.
bool watches_late_reads(const region::Effect& effect);

}  // namespace pellucid::runtime
