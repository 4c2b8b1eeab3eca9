//! The part of JSON Schema that our schemas use, and no more: an unknown keyword fails a test.

use serde_json::Value;

/// Why a value does not follow a schema, with the place; `root` has the definitions.
pub fn check(value: &Value, schema: &Value, root: &Value) -> Result<(), String> {
    check_at(value, schema, root, "")
}

fn check_at(value: &Value, schema: &Value, root: &Value, at: &str) -> Result<(), String> {
    let Some(keywords) = schema.as_object() else {
        return if schema == true { Ok(()) } else { Err(format!("{at}: nothing is allowed here")) };
    };
    for (keyword, rule) in keywords {
        let wrong = || format!("{at}: {value} does not follow {keyword} {rule}");
        let right = match keyword.as_str() {
            "$ref" => {
                let pointer = rule.as_str().and_then(|name| name.strip_prefix('#')).expect("a definition");
                check_at(value, root.pointer(pointer).expect("it is defined"), root, at)?;
                true
            }
            "type" => match rule {
                Value::Array(types) => types.iter().any(|one| has_type(value, one)),
                one => has_type(value, one),
            },
            "const" => value == rule,
            "enum" => list(rule).contains(value),
            "anyOf" => list(rule).iter().any(|one| check_at(value, one, root, at).is_ok()),
            "oneOf" => list(rule).iter().filter(|one| check_at(value, one, root, at).is_ok()).count() == 1,
            "minimum" => value.as_f64().is_none_or(|number| Some(number) >= rule.as_f64()),
            "maximum" => value.as_f64().is_none_or(|number| Some(number) <= rule.as_f64()),
            "minLength" => value.as_str().is_none_or(|text| text.chars().count() as u64 >= number(rule)),
            "minItems" => value.as_array().is_none_or(|all| all.len() as u64 >= number(rule)),
            "required" => value.as_object().is_none_or(|fields| {
                list(rule).iter().all(|name| fields.contains_key(name.as_str().expect("a name")))
            }),
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    check_at(item, rule, root, &format!("{at}/{index}"))?;
                }
                true
            }
            "properties" => {
                for (name, field) in value.as_object().into_iter().flatten() {
                    if let Some(schema) = rule.get(name) {
                        check_at(field, schema, root, &format!("{at}/{name}"))?;
                    }
                }
                true
            }
            "additionalProperties" => {
                for (name, field) in value.as_object().into_iter().flatten() {
                    if schema["properties"].get(name).is_none() {
                        check_at(field, rule, root, &format!("{at}/{name}"))?;
                    }
                }
                true
            }
            // They describe, or say how a text is written inside.
            "$schema" | "$defs" | "title" | "description" | "default" | "format" | "pattern" => true,
            other => panic!("{at}: the keyword {other} is not known here"),
        };
        if !right {
            return Err(wrong());
        }
    }
    Ok(())
}

fn has_type(value: &Value, name: &Value) -> bool {
    match name.as_str().expect("the name of a type") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("there is no type {other}"),
    }
}

fn list(rule: &Value) -> &Vec<Value> {
    rule.as_array().expect("a list")
}

fn number(rule: &Value) -> u64 {
    rule.as_u64().expect("a number")
}

/// Whether a schema of a tool holds only what every client understands: one type each, no references, no alternatives.
pub fn check_tool_schema(schema: &Value, at: &str) -> Result<(), String> {
    let Some(keywords) = schema.as_object() else { return Err(format!("{at} is no object")) };
    let properties = schema["properties"].as_object();
    for (keyword, rule) in keywords {
        let right = match keyword.as_str() {
            "type" => rule
                .as_str()
                .is_some_and(|name| ["object", "array", "string", "integer", "boolean"].contains(&name)),
            "description" => rule.as_str().is_some_and(|text| !text.is_empty()),
            "enum" => rule.as_array().is_some_and(|all| !all.is_empty() && all.iter().all(Value::is_string)),
            "minimum" => rule.is_u64(),
            "additionalProperties" => rule.is_boolean(),
            "required" => rule.as_array().is_some_and(|all| {
                all.iter().all(|name| {
                    name.as_str().is_some_and(|name| properties.is_some_and(|all| all.contains_key(name)))
                })
            }),
            "items" => {
                check_tool_schema(rule, &format!("{at}/items"))?;
                schema["type"] == "array"
            }
            "properties" => {
                for (name, field) in rule.as_object().into_iter().flatten() {
                    check_tool_schema(field, &format!("{at}/{name}"))?;
                }
                schema["type"] == "object"
            }
            _ => false,
        };
        if !right {
            return Err(format!("{at}: {keyword} {rule}"));
        }
    }
    match schema["type"].as_str() {
        Some("array") if schema.get("items").is_none() => Err(format!("{at}: an array of what?")),
        Some("object") if properties.is_none() => Err(format!("{at}: an object of what?")),
        Some(_) => Ok(()),
        None => Err(format!("{at} has no type")),
    }
}

#[test]
fn the_checks_can_fail() {
    use serde_json::json;
    let schema = json!({
        "$defs": {"name": {"type": "string", "minLength": 1}},
        "type": "object", "required": ["a"], "additionalProperties": false,
        "properties": {"a": {"$ref": "#/$defs/name"}, "b": {"anyOf": [{"const": 1}, {"type": ["null", "array"], "minItems": 2}]}},
    });
    for right in [json!({"a": "x"}), json!({"a": "x", "b": 1}), json!({"a": "x", "b": [1, 2]})] {
        assert_eq!(check(&right, &schema, &schema), Ok(()));
    }
    for wrong in
        [json!({}), json!({"a": ""}), json!({"a": 1}), json!({"a": "x", "b": [1]}), json!({"a": "x", "c": 1})]
    {
        assert!(check(&wrong, &schema, &schema).is_err(), "{wrong}");
    }
    for wrong in [
        json!({"type": "object"}),
        json!({"type": "array"}),
        json!({"type": ["string", "null"]}),
        json!({"type": "object", "properties": {}, "required": ["a"]}),
        json!({"type": "object", "properties": {"a": {"anyOf": []}}}),
    ] {
        assert!(check_tool_schema(&wrong, "").is_err(), "{wrong}");
    }
}
