//! A chart as one page: the picture with zoom, search and a card for the task under the pointer. Without scripts it
//! is the plain picture.

use super::svg::escape;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The page around a Gantt picture.
pub(super) fn page(title: &str, svg: &str) -> String {
    let tools = "<header id=\"tools\" hidden>\n\
                 <input id=\"search\" type=\"search\" placeholder=\"Find a task\" aria-label=\"Find a task\" \
                 autocomplete=\"off\" spellcheck=\"false\">\n<output id=\"found\"></output>\n\
                 <span class=\"hint\">wheel: zoom &middot; drag: move &middot; double-click or Esc: all &middot; click \
                 a kind: show it alone</span>\n<button id=\"all\" type=\"button\">Show all</button>\n</header>\n";
    document(
        title,
        &format!(
            "{tools}<main id=\"chart\">\n{svg}</main>\n<div id=\"card\" hidden></div>\n<script>\n{SCRIPT}</script>\n"
        ),
    )
}

/// A page that shows a picture and nothing else.
pub(crate) fn embed(title: &str, svg: &str) -> String {
    document(title, &format!("<main id=\"chart\">\n{svg}</main>\n"))
}

fn document(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n{body}</body>\n</html>\n",
        escape(title)
    )
}
