// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Long names may break between their words, but not after "acl", "aclnn" and "aclrt". Copied text has no breaks.
for (const name of document.querySelectorAll("td .pre, .sig-name .pre, .toc-tree .pre"))
  name.innerHTML = name.innerHTML.replace(/[_/(]|\.(?=\w{3})|(?<!^ac|^acl.)[a-z](?=[A-Z])/g, "$&<wbr>");
