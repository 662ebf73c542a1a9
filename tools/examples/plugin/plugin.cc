// What the library is known by.
#include "plugin.h"

namespace {

void Declare(oneflow::Plugin& plugin) {
  waves::AddSnake(plugin);
  waves::AddRmsProp(plugin);
  waves::AddWaveData(plugin);
  waves::AddWaveNet(plugin);
  waves::AddLossLog(plugin);
}

}  // namespace

ONEFLOW_PLUGIN(Declare)
