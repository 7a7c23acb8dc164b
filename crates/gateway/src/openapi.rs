//! The OpenAPI document of the gateway. It is written by hand, and tests hold it equal to the routes, the options, the
//! problems and the answers.

/// The document, as served at `/v1/openapi.json`.
pub const DOCUMENT: &str = include_str!("openapi.json");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::Form;
    use crate::parameters::DocumentForm;
    use crate::problem::{Kind, TYPE_PREFIX};
    use crate::routes::Route;
    use crate::streams;
    use crate::wishes::{OPTIONS, header_of};
    use serde_json::Value;
    use std::collections::BTreeSet;

    fn document() -> Value {
        serde_json::from_str(DOCUMENT).unwrap()
    }

    fn texts(values: &Value) -> Vec<&str> {
        values.as_array().unwrap().iter().map(|value| value.as_str().unwrap()).collect()
    }

    #[test]
    fn document_has_every_route_and_no_other() {
        let document = document();
        assert_eq!(document["openapi"], "3.1.0");
        let documented: BTreeSet<(String, String)> = document["paths"]
            .as_object()
            .unwrap()
            .iter()
            .flat_map(|(path, methods)| {
                methods.as_object().unwrap().keys().map(|method| (path.clone(), method.to_uppercase()))
            })
            .collect();
        let routed = Route::ALL.map(|route| (route.path().to_owned(), route.method().to_owned()));
        assert_eq!(documented, routed.into());
    }

    #[test]
    fn document_has_every_option_form_and_problem() {
        let document = document();
        let call = &document["paths"][Route::Call.path()]["post"];
        let named = |place: &str| -> BTreeSet<String> {
            let parameters = call["parameters"].as_array().unwrap().iter();
            let there = parameters.filter(|parameter| parameter["in"] == place);
            there.map(|parameter| parameter["name"].as_str().unwrap().to_lowercase()).collect()
        };
        assert_eq!(named("query"), OPTIONS.map(str::to_owned).into());
        assert_eq!(named("header"), OPTIONS.map(header_of).into());
        let forms: BTreeSet<&str> =
            [Form::Json, Form::MessagePack, Form::Bytes, Form::Arrow].map(Form::media_type).into();
        let keys =
            |value: &Value| -> BTreeSet<String> { value.as_object().unwrap().keys().cloned().collect() };
        let of_bodies = forms.iter().copied().chain(DocumentForm::ALL.map(DocumentForm::media_type));
        assert_eq!(keys(&call["requestBody"]["content"]), of_bodies.map(str::to_owned).collect());
        assert_eq!(
            keys(&call["responses"]["200"]["content"]),
            forms.iter().copied().chain(["application/x-ndjson"]).map(str::to_owned).collect()
        );
        let of_streams = document["paths"][Route::Stream.path()]["get"]["parameters"].as_array().unwrap();
        let settings = of_streams.iter().filter(|parameter| parameter["in"] == "query");
        let settings: Vec<&str> = settings.map(|parameter| parameter["name"].as_str().unwrap()).collect();
        assert_eq!(settings, streams::OPTIONS);
        let problem = &document["components"]["schemas"]["Problem"]["properties"];
        let types: BTreeSet<&str> = texts(&problem["type"]["enum"]).into_iter().collect();
        let kinds: BTreeSet<String> =
            Kind::ALL.iter().map(|kind| format!("{TYPE_PREFIX}{}", kind.name())).collect();
        assert_eq!(types, kinds.iter().map(String::as_str).collect());
        let statuses: BTreeSet<u16> = Kind::ALL.iter().map(|kind| kind.status().as_u16()).collect();
        let of_call = call["responses"].as_object().unwrap().keys();
        let documented: BTreeSet<u16> = of_call.filter_map(|status| status.parse().ok()).collect();
        assert!(statuses.difference(&documented).all(|status| [404, 405].contains(status)), "{documented:?}");
    }
}
