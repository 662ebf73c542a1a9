// A server's certificate as an operator's own CA may sign them by the hundred: good for this machine, and of no part of
// the cluster.
#pragma once

#include <string>

#include "actor/transport/tls.h"

namespace oneflow::testing {

// Signed by the CA in `folder`/ca (MakeCertificates()), for 'localhost' and 127.0.0.1, as server and as client, without
// a URI.
TlsIdentity MakeStrangeServer(const std::string& folder);

}  // namespace oneflow::testing
