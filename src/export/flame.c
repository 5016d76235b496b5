// SPDX-License-Identifier: Apache-2.0
// Flame graphs as one file. The page's policy lets nothing run or load but the script and style whose digests it names:
// a name that would get through al_flame_text could still do nothing.
#include "export/flame.h"

#include "base/err.h"

static void put_json(struct al_buf *b, const struct al_profile *p, const struct al_profile_about *about, int *result) {
    al_buf_str(b, "<script type=\"application/json\" id=\"data\">");
    if (!*result)
        *result = al_flame_data(b, p, about, AL_FLAME_NODES, AL_FLAME_RUNS);
    al_buf_str(b, "</script>\n");
}

int al_flame_html(struct al_buf *b, const struct al_profile *p, const struct al_profile_about *about) {
    al_buf_str(b, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                  "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; form-action 'none'; "
                  "img-src data:; script-src 'sha256-");
    al_buf_str(b, al_flame_js_sha256);
    al_buf_str(b, "'; style-src 'sha256-");
    al_buf_str(b, al_flame_css_sha256);
    al_buf_str(b, "'\">\n<meta name=\"viewport\" content=\"width=device-width\">\n<meta name=\"color-scheme\" content=\"light dark\">\n"
                  "<link rel=\"icon\" href=\"data:,\">\n<title>");
    al_flame_escaped(b, *about->command ? about->command : about->name);
    al_buf_str(b, " - alula profile</title>\n<style>");
    al_buf_str(b, al_flame_css);
    al_buf_str(b, "</style>\n</head>\n<body>\n");
    int result = al_flame_picture(b, p, about);
    al_buf_str(b, "</svg>\n");
    put_json(b, p, about, &result);
    al_buf_str(b, "<script>");
    al_buf_str(b, al_flame_js);
    al_buf_str(b, "</script>\n</body>\n</html>\n");
    return result ? result : b->failed ? AL_E_NOMEM : 0;
}

int al_flame_svg(struct al_buf *b, const struct al_profile *p, const struct al_profile_about *about) {
    al_buf_str(b, "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n");
    int result = al_flame_picture(b, p, about);
    put_json(b, p, about, &result);
    al_buf_str(b, "<style><![CDATA[");
    al_buf_str(b, al_flame_css);
    al_buf_str(b, "]]></style>\n<script><![CDATA[");
    al_buf_str(b, al_flame_js);
    al_buf_str(b, "]]></script>\n</svg>\n");
    return result ? result : b->failed ? AL_E_NOMEM : 0;
}
