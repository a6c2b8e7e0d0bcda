// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Long names may break between their words, but not after "acl", "aclnn" and "aclrt". Copied text has no breaks.
for (const name of document.querySelectorAll("td .pre, .sig-name .pre, .toc-tree .pre"))
  name.innerHTML = name.innerHTML.replace(/[_/(]|\.(?=\w{3})|(?<!^ac|^acl.)[a-z](?=[A-Z])/g, "$&<wbr>");
// Numbers such as 7.5e-6 do not break at the hyphen.
for (const cell of document.querySelectorAll("td"))
  if (/^[\d.e/\s-]+$/.test(cell.textContent))
    cell.innerHTML = cell.innerHTML.replace(/[\d.]+e-\d+(?: \/)?/g, '<span style="white-space: nowrap">$&</span>');
