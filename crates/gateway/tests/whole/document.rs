//! The OpenAPI document and real answers agree.

use crate::world::World;
use serde_json::Value;

/// Checks a value against a schema of the document. It knows the words of JSON Schema that the document uses.
pub fn check(document: &Value, schema: &Value, value: &Value, place: &str) {
    if let Some(reference) = schema["$ref"].as_str() {
        let schema = document.pointer(reference.trim_start_matches('#')).expect("a known schema");
        return check(document, schema, value, place);
    }
    let types = match &schema["type"] {
        Value::Array(types) => types.clone(),
        Value::Null => Vec::new(),
        one => vec![one.clone()],
    };
    let is = |name: &Value| match name.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("{place}: unknown type {other}"),
    };
    assert!(types.is_empty() || types.iter().any(is), "{place}: {value} is not {types:?}");
    if let Some(allowed) = schema["enum"].as_array() {
        assert!(allowed.contains(value), "{place}: {value} is none of {allowed:?}");
    }
    for required in schema["required"].as_array().into_iter().flatten() {
        assert!(value.get(required.as_str().unwrap()).is_some(), "{place}: {required} is missing in {value}");
    }
    for (name, part) in value.as_object().into_iter().flatten() {
        let place = format!("{place}.{name}");
        match (&schema["properties"][name], &schema["additionalProperties"]) {
            (Value::Null, Value::Bool(false)) => panic!("{place} is not in the document"),
            (Value::Null, Value::Null | Value::Bool(true)) => {}
            (Value::Null, schema) | (schema, _) => check(document, schema, part, &place),
        }
    }
    for (at, item) in value.as_array().into_iter().flatten().enumerate() {
        check(document, &schema["items"], item, &format!("{place}[{at}]"));
    }
}

#[tokio::test]
async fn answers_have_the_form_of_the_document() {
    let world = World::usual().await;
    let document = world.get("/v1/openapi.json").await.json();
    assert_eq!(document["openapi"], "3.1.0");
    for path in ["/v1/status", "/v1/services", "/v1/nodes", "/healthz", "/readyz"] {
        let answer = world.get(path).await;
        let schema =
            &document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"];
        check(&document, schema, &answer.json(), path);
    }
    let call = world.sum("?explain", r#"{"fail": [1]}"#).await;
    let number = call.header("treefold-call").expect("the tree is kept").to_owned();
    for (template, path) in
        [("/v1/trees", "/v1/trees".to_owned()), ("/v1/trees/{call}", format!("/v1/trees/{number}"))]
    {
        let schema =
            &document["paths"][template]["get"]["responses"]["200"]["content"]["application/json"]["schema"];
        check(&document, schema, &world.get(&path).await.json(), &path);
    }
    let call = &document["paths"]["/v1/call/{service}/{aggregation}"]["post"]["responses"];
    for (query, params) in [
        ("?explain", "null"),
        ("?min_coverage=0.5", r#"{"fail": [1]}"#),
        ("?min_coverage=1", r#"{"fail": [1]}"#),
        ("?deadline=never", "null"),
        ("", "{"),
    ] {
        let answer = world.sum(query, params).await;
        let (status, form) = (answer.status.to_string(), answer.header("content-type").unwrap());
        let schema = &call[&status]["content"][form]["schema"];
        assert!(schema.is_object(), "{status} {form} is not in the document");
        check(&document, schema, &answer.json(), query);
    }
}
