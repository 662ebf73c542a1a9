// The parts of this plugin: each function adds its rows.
#pragma once

#include "actor/plugin.h"

namespace waves {

void AddSnake(oneflow::Plugin& plugin);     // snake.cc: an op with a gradient, and its kernels
void AddRmsProp(oneflow::Plugin& plugin);   // rmsprop.cc: an optimizer
void AddWaveData(oneflow::Plugin& plugin);  // wave_data.cc: a source of data
void AddWaveNet(oneflow::Plugin& plugin);   // wave_net.cc: a model
void AddLossLog(oneflow::Plugin& plugin);   // loss_log.cc: a function of the host, with state

}  // namespace waves
