// Which configuration: what a training step costs in time and memory, and which choices are worth a look.
#pragma once

#include "advise/cluster.h"
#include "advise/configuration.h"
#include "advise/constants.h"
#include "advise/fit.h"
#include "advise/measurements.h"
#include "advise/model.h"
#include "advise/time.h"
