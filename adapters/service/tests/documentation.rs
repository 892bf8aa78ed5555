//! The documentation is that of the code: the `OpenAPI` document, and a curl line for every call that works.

mod common;

use std::collections::BTreeSet;
use std::path::PathBuf;

use common::{DEADLINE, Outcome, Service};

fn docs(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs")).join(name)
}

#[test]
fn the_openapi_document_is_generated_from_the_code() -> Outcome {
    let generated = serde_json::to_string_pretty(&mdts_service::openapi())? + "\n";
    if std::env::var_os("MDTS_WRITE_DOCS").is_some() {
        std::fs::write(docs("openapi.json"), &generated)?;
    }
    let found = std::fs::read_to_string(docs("openapi.json"))?;
    assert!(found == generated, "docs/openapi.json is out of date: run this test with MDTS_WRITE_DOCS=1");
    Ok(())
}

/// Method and path of a curl line, with `j0` and other names in the place of parameters.
fn call(line: &str) -> Option<(String, String)> {
    let method = match line.split("-X ").nth(1) {
        Some(rest) => rest.split_whitespace().next()?.to_lowercase(),
        None if line.contains("--data") => "post".to_owned(),
        None => "get".to_owned(),
    };
    let path = line.split("http://mdts").nth(1)?;
    let path = path.split(['\'', '"', ' ', '?']).next()?;
    Some((method, path.to_owned()))
}

fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<&str>, Vec<&str>) = (pattern.split('/').collect(), path.split('/').collect());
    pattern.len() == path.len() && pattern.iter().zip(&path).all(|(a, b)| a.starts_with('{') || a == b)
}

#[tokio::test]
async fn every_call_has_a_curl_line_that_works() -> Outcome {
    let page = std::fs::read_to_string(docs("service.md"))?;
    let lines: Vec<&str> = page.lines().filter(|line| line.starts_with("curl --unix-socket $S ")).collect();
    let calls: Vec<(String, String)> = lines.iter().filter_map(|line| call(line)).collect();
    assert_eq!(calls.len(), lines.len());
    let document = mdts_service::openapi();
    let mut missing = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().ok_or("no paths")? {
        for method in methods.as_object().ok_or("no methods")?.keys() {
            if !calls.iter().any(|(m, p)| m == method && matches(path, p)) {
                missing.insert(format!("{method} {path}"));
            }
        }
    }
    assert!(missing.is_empty(), "docs/service.md has no curl line for {missing:?}");

    let service = Service::start()?;
    for line in lines {
        let command = line.replacen("curl", "curl -sS --fail-with-body --max-time 20", 1);
        let run = tokio::process::Command::new("sh")
            .args(["-c", &command])
            .env("S", &service.socket)
            .current_dir(service.folder.path())
            .output();
        let output = tokio::time::timeout(DEADLINE, run).await??;
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{line}\n{told}{}", String::from_utf8_lossy(&output.stderr));
    }
    service.stop().await?;
    Ok(())
}
