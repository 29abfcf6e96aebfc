// Python's operations on any object. Each gives a value, pushes a frame whose result it will be, or raises.
#pragma once
#include "protocols/attributes.h"
#include "protocols/call.h"
#include "protocols/containers.h"
#include "protocols/operators.h"
#include "protocols/text.h"
