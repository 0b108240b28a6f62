//! `#[sillon_sim::test]`. Owns the words of the attribute; all that a test does is in `sillon_sim::app`.

use proc_macro::TokenStream;
use quote::quote;
use syn::{ItemFn, LitInt, LitStr, meta::ParseNestedMeta, parse_macro_input};

/// Makes a test of an async function that takes a `Simulation`: it runs once for each seed, each time in a new cluster with
/// other faults, and the test fails with the first seed for which the function panics or gives an error.
///
/// * `seeds = 100`: how many seeds, from 1 on. 100 where nothing is said.
/// * `scenario = "scenarios/mine.toml"`: a scenario file, from the crate's folder, for the cluster, network, disks, clocks and
///   faults. Without one: three brokers and three coordinators, with crashes, pauses, partitions and resets.
///
/// The function gives `Result<(), String>`, or nothing.
#[proc_macro_attribute]
pub fn test(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let mut words = Words::default();
    let parser = syn::meta::parser(|meta| words.take(&meta));
    parse_macro_input!(attribute with parser);
    let function = parse_macro_input!(item as ItemFn);
    match expand(&words, &function) {
        Ok(tokens) => tokens.into(),
        Err(error) => error.to_compile_error().into(),
    }
}

#[derive(Default)]
struct Words {
    seeds: Option<LitInt>,
    scenario: Option<LitStr>,
}

impl Words {
    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        if meta.path.is_ident("seeds") {
            let seeds: LitInt = meta.value()?.parse()?;
            if seeds.base10_parse::<u64>()? == 0 {
                return Err(meta.error("a test needs a seed"));
            }
            self.seeds = Some(seeds);
            return Ok(());
        }
        if meta.path.is_ident("scenario") {
            self.scenario = Some(meta.value()?.parse()?);
            return Ok(());
        }
        Err(meta.error("expected `seeds = N` or `scenario = \"FILE\"`"))
    }
}

fn expand(words: &Words, function: &ItemFn) -> syn::Result<proc_macro2::TokenStream> {
    if function.sig.asyncness.is_none() {
        return Err(syn::Error::new_spanned(function.sig.fn_token, "a simulated test is an `async fn`"));
    }
    if function.sig.inputs.len() != 1 {
        let message = "a simulated test takes one argument, the `Simulation`";
        return Err(syn::Error::new_spanned(&function.sig, message));
    }
    let (name, attributes, visibility) = (&function.sig.ident, &function.attrs, &function.vis);
    let seeds = words.seeds.as_ref().map(|seeds| quote!(options.seeds = #seeds;));
    let scenario = words.scenario.as_ref().map(|file| {
        quote! {
            let directory = ::std::path::Path::new(::std::env!("CARGO_MANIFEST_DIR"));
            options.scenario = ::std::option::Option::Some(directory.join(#file));
        }
    });
    Ok(quote! {
        #(#attributes)*
        #[::core::prelude::v1::test]
        #visibility fn #name() {
            #function
            let mut options = ::sillon_sim::app::Options::default();
            #seeds
            #scenario
            ::sillon_sim::app::check(::core::stringify!(#name), &options, |simulation| async move {
                ::sillon_sim::app::IntoVerdict::into_verdict(#name(simulation).await)
            });
        }
    })
}
