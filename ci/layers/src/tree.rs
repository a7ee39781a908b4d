//! The modules of a crate as its files declare them, and the imports between them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{
    Attribute, Item, Meta, UseTree, parse::Parser, punctuated::Punctuated, visit_mut::VisitMut,
};

use crate::Imports;

/// The modules of one crate by their path from its root (`""` is the root, `"a::b"` a module).
pub(crate) struct Crate {
    modules: BTreeMap<String, Module>,
}

/// One module.
#[derive(Default)]
struct Module {
    /// The module whose file has this one: itself, or one above it where this one is written inside braces.
    file: String,
    /// Names that it binds by `use`: the path that each stands for, and whether it is a re-export.
    bound: BTreeMap<String, (Vec<String>, bool)>,
    /// Paths of `use …::*`.
    globs: Vec<Vec<String>>,
    /// Names that it defines.
    defined: BTreeSet<String>,
    /// Paths in its code, as they are written.
    paths: BTreeSet<Vec<String>>,
}

impl Crate {
    /// Reads the crate whose root is the file `root`.
    pub(crate) fn read(root: &Path) -> Self {
        let mut krate = Self { modules: BTreeMap::new() };
        let folder = root.parent().expect("a file lies in a folder").to_path_buf();
        krate.read_file(String::new(), root, &folder);
        krate
    }

    fn read_file(&mut self, name: String, path: &Path, folder: &Path) {
        let text = std::fs::read_to_string(path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let file =
            syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        self.read_items(&name.clone(), name, file.items, path, folder);
    }

    /// `file` is the module whose file the items are in; `folder` is where the files of its modules lie.
    fn read_items(
        &mut self,
        file: &str,
        name: String,
        items: Vec<Item>,
        path: &Path,
        folder: &Path,
    ) {
        let mut module = Module { file: file.to_owned(), ..Module::default() };
        for mut item in items {
            if !is_built(attributes(&item)) {
                continue;
            }
            WithoutTests.visit_item_mut(&mut item);
            match item {
                Item::Mod(inner) => {
                    let child = inner.ident.to_string();
                    let full =
                        if name.is_empty() { child.clone() } else { format!("{name}::{child}") };
                    match inner.content {
                        Some((_, items)) => {
                            self.read_items(file, full, items, path, &folder.join(&child))
                        }
                        None => {
                            let (path, beneath) = find(folder, path, &child, &inner.attrs);
                            self.read_file(full, &path, &beneath);
                        }
                    }
                }
                Item::Use(item) => {
                    let again = !matches!(item.vis, syn::Visibility::Inherited);
                    read_use(&item.tree, Vec::new(), again, &mut module);
                }
                other => {
                    if let Some(defined) = defined(&other) {
                        module.defined.insert(defined);
                    }
                    read_paths(other.to_token_stream(), &mut module.paths);
                }
            }
        }
        self.modules.insert(name, module);
    }

    /// Which module's file imports what from which.
    pub(crate) fn imports(&self) -> Imports {
        let mut imports = Imports::new();
        for (name, module) in &self.modules {
            let bound = module
                .bound
                .iter()
                .filter(|(alias, (_, again))| !again || module.uses(alias))
                .map(|(_, (path, _))| path);
            for path in bound.chain(&module.globs).chain(&module.paths) {
                let Some((target, item)) = self.resolve(name, path, 0) else { continue };
                let to = &self.modules[&target].file;
                if *to != module.file {
                    let names = imports.entry((module.file.clone(), to.clone())).or_default();
                    if !names.contains(&item) {
                        names.push(item);
                    }
                }
            }
        }
        imports
    }

    /// The module that defines what `path` names in the module `name`, and the item's name there.
    fn resolve(&self, name: &str, path: &[String], depth: usize) -> Option<(String, String)> {
        if depth > 12 {
            return None;
        }
        let (first, mut rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => String::new(),
            "self" => name.to_owned(),
            "super" => parent(name)?,
            _ => {
                rest = path;
                name.to_owned()
            }
        };
        while let Some((segment, after)) = rest.split_first() {
            if segment == "super" {
                at = parent(&at)?;
                rest = after;
                continue;
            }
            let child = if at.is_empty() { segment.clone() } else { format!("{at}::{segment}") };
            if self.modules.contains_key(&child) {
                at = child;
                rest = after;
                continue;
            }
            let module = &self.modules[&at];
            if module.defined.contains(segment) {
                return Some((at, segment.clone()));
            }
            if let Some((target, _)) = module.bound.get(segment) {
                let whole: Vec<String> = target.iter().chain(after).cloned().collect();
                return if whole == path && at == name {
                    None
                } else {
                    self.resolve(&at, &whole, depth + 1)
                };
            }
            return module.globs.iter().find_map(|glob| {
                let whole: Vec<String> = glob.iter().chain(rest).cloned().collect();
                self.resolve(&at, &whole, depth + 1)
            });
        }
        // A path to a module itself imports nothing yet: the paths that go through it do.
        None
    }
}

impl Module {
    /// Whether its code has a path that begins with `name`.
    fn uses(&self, name: &str) -> bool {
        self.paths.iter().any(|path| path[0] == name)
    }
}

fn parent(name: &str) -> Option<String> {
    if name.is_empty() {
        return None;
    }
    Some(name.rsplit_once("::").map_or(String::new(), |(parent, _)| parent.to_owned()))
}

/// The file of the module `child`, and the folder of its own modules.
fn find(
    folder: &Path,
    declared_in: &Path,
    child: &str,
    attributes: &[Attribute],
) -> (PathBuf, PathBuf) {
    for attribute in attributes {
        if let Meta::NameValue(pair) = &attribute.meta
            && pair.path.is_ident("path")
            && let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &pair.value
        {
            let path = declared_in.parent().expect("a file lies in a folder").join(text.value());
            let beneath = path.parent().expect("a file lies in a folder").to_path_buf();
            return (path, beneath);
        }
    }
    let beneath = folder.join(child);
    let flat = folder.join(format!("{child}.rs"));
    (if flat.exists() { flat } else { beneath.join("mod.rs") }, beneath)
}

/// Adds the bindings of one `use`.
fn read_use(tree: &UseTree, mut path: Vec<String>, again: bool, module: &mut Module) {
    match tree {
        UseTree::Path(inner) => {
            path.push(inner.ident.to_string());
            read_use(&inner.tree, path, again, module);
        }
        UseTree::Name(inner) if inner.ident == "self" => {
            bind(path.last().cloned(), path, again, module)
        }
        UseTree::Name(inner) => {
            path.push(inner.ident.to_string());
            bind(path.last().cloned(), path, again, module);
        }
        UseTree::Rename(inner) => {
            if inner.ident != "self" {
                path.push(inner.ident.to_string());
            }
            let alias = if inner.rename == "_" {
                format!("_{}", path.join("::"))
            } else {
                inner.rename.to_string()
            };
            bind(Some(alias), path, again, module);
        }
        UseTree::Glob(_) => module.globs.push(path),
        UseTree::Group(inner) => {
            inner.items.iter().for_each(|tree| read_use(tree, path.clone(), again, module))
        }
    }
}

fn bind(alias: Option<String>, path: Vec<String>, again: bool, module: &mut Module) {
    if let Some(alias) = alias {
        module.bound.insert(alias, (path, again));
    }
}

/// Adds the paths `a::b::c` and the single names in `tokens`, those in the arguments of macros too.
fn read_paths(tokens: TokenStream, paths: &mut BTreeSet<Vec<String>>) {
    let mut path: Vec<String> = Vec::new();
    let mut colons = 0;
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => {
                if colons != 2 && !path.is_empty() {
                    paths.insert(std::mem::take(&mut path));
                }
                path.push(ident.to_string());
                colons = 0;
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
            other => {
                if !path.is_empty() {
                    paths.insert(std::mem::take(&mut path));
                }
                colons = 0;
                if let TokenTree::Group(group) = other {
                    read_paths(group.stream(), paths);
                }
            }
        }
    }
    if !path.is_empty() {
        paths.insert(path);
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn defined(item: &Item) -> Option<String> {
    Some(match item {
        Item::Const(item) => item.ident.to_string(),
        Item::Enum(item) => item.ident.to_string(),
        Item::Fn(item) => item.sig.ident.to_string(),
        Item::Macro(item) => item.ident.as_ref()?.to_string(),
        Item::Static(item) => item.ident.to_string(),
        Item::Struct(item) => item.ident.to_string(),
        Item::Trait(item) => item.ident.to_string(),
        Item::Type(item) => item.ident.to_string(),
        Item::Union(item) => item.ident.to_string(),
        _ => return None,
    })
}

/// Whether an ordinary build has what carries these attributes: no test, no model, no fuzzing.
fn is_built(attributes: &[Attribute]) -> bool {
    attributes.iter().all(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            list.parse_args::<Meta>().is_ok_and(|meta| holds(&meta))
        }
        _ => true,
    })
}

fn holds(meta: &Meta) -> bool {
    match meta {
        Meta::Path(path) => {
            !["test", "loom", "fuzzing", "sanitized"].iter().any(|name| path.is_ident(name))
        }
        Meta::NameValue(_) => true,
        Meta::List(list) => {
            let parser = Punctuated::<Meta, syn::Token![,]>::parse_terminated;
            let inner = parser.parse2(list.tokens.clone()).unwrap_or_default();
            if list.path.is_ident("all") {
                inner.iter().all(holds)
            } else if list.path.is_ident("any") {
                inner.iter().any(holds)
            } else {
                // `not`: features and platforms count as there and as not there, so that both sides are read.
                inner.iter().all(|meta| matches!(meta, Meta::NameValue(_)) || !holds(meta))
            }
        }
    }
}

/// Takes out what only tests have, inside items too.
struct WithoutTests;

impl VisitMut for WithoutTests {
    fn visit_item_impl_mut(&mut self, item: &mut syn::ItemImpl) {
        item.items.retain(|inner| match inner {
            syn::ImplItem::Const(inner) => is_built(&inner.attrs),
            syn::ImplItem::Fn(inner) => is_built(&inner.attrs),
            syn::ImplItem::Type(inner) => is_built(&inner.attrs),
            _ => true,
        });
        syn::visit_mut::visit_item_impl_mut(self, item);
    }

    fn visit_fields_named_mut(&mut self, fields: &mut syn::FieldsNamed) {
        fields.named = std::mem::take(&mut fields.named)
            .into_iter()
            .filter(|field| is_built(&field.attrs))
            .collect();
        syn::visit_mut::visit_fields_named_mut(self, fields);
    }

    fn visit_block_mut(&mut self, block: &mut syn::Block) {
        block.stmts.retain(|statement| match statement {
            syn::Stmt::Local(local) => is_built(&local.attrs),
            syn::Stmt::Item(item) => is_built(attributes(item)),
            syn::Stmt::Expr(syn::Expr::Block(inner), _) => is_built(&inner.attrs),
            _ => true,
        });
        syn::visit_mut::visit_block_mut(self, block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The imports of a crate with these files.
    fn imports(files: &[(&str, &str)]) -> Vec<(String, String)> {
        let folder = std::env::temp_dir().join(format!(
            "layers-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        for (path, text) in files {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let found = Crate::read(&folder.join("lib.rs")).imports().into_keys().collect();
        std::fs::remove_dir_all(folder).unwrap();
        found
    }

    fn pairs(found: &[(String, String)]) -> Vec<(&str, &str)> {
        found.iter().map(|(from, to)| (from.as_str(), to.as_str())).collect()
    }

    #[test]
    fn re_exports_lead_to_the_definition() {
        let found = imports(&[
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "mod inner; pub(crate) use inner::Thing;"),
            ("a/inner.rs", "pub(crate) struct Thing;"),
            ("b.rs", "use crate::a::Thing; fn f(_: Thing) {}"),
        ]);
        assert_eq!(pairs(&found), [("b", "a::inner")]);
    }

    #[test]
    fn paths_in_code_and_in_macros_count() {
        let found = imports(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "pub(crate) fn f() {}"),
            ("b.rs", "fn g() { crate::a::f() }"),
            ("c.rs", "use crate::a; fn h() { assert_eq!(a::f(), ()); }"),
        ]);
        assert_eq!(pairs(&found), [("b", "a"), ("c", "a")]);
    }

    #[test]
    fn tests_and_models_do_not_count() {
        let found = imports(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "pub(crate) fn f() {} #[cfg(test)] mod tests { use crate::b::g; }"),
            (
                "b.rs",
                "pub(crate) fn g() { #[cfg(loom)] { crate::a::f() } } #[cfg(all(test, not(loom)))] fn h() { crate::a::f() }",
            ),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn a_child_that_takes_from_its_parent_is_an_import() {
        let found = imports(&[
            ("lib.rs", "mod a;"),
            ("a/mod.rs", "mod inner; use inner::Low; pub(crate) struct High(Low);"),
            ("a/inner.rs", "pub(super) struct Low; fn f(_: super::High) {}"),
        ]);
        assert_eq!(pairs(&found), [("a", "a::inner"), ("a::inner", "a")]);
    }
}
