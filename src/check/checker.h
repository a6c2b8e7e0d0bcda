// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The checker as the observer of the layers below.
#pragma once

namespace aclgrad::check {

// Before any call of the library.
void observe_layers();

}  // namespace aclgrad::check
