#include "source/source.h"
