//! Keys that sign the tokens of the tests, and stand for nothing else.

/// An RSA key of 2048 bits, PKCS#1.
pub(crate) const RSA: &str = concat!(
    "MIIEpAIBAAKCAQEA5iMuOqOm50fAoWxsaqSnzTn718UFvITrQzSBno22eeTI4w+ApmlEVYMQMRcN1yOAnZtRmrENiRuqlCJLilCVOpwH2eMzK5",
    "4+jSLBTzMVAQio6l5Jl287RwoDATuGbpya86kJbusZAt3MDXnT49sp4ONgthFii20v/TY66QpxctMKUEfP8TxfJDzieg+esbJ1Ah0OrHoUlP0U",
    "mbp2/7mPeLoYHnxeOtC2TenVfrEy808+Y/EVC/8az/Rxh4mv8CCYOOgiXAVaBksp8wgA7lfaKDXRdO78PJLCXL49S+wweXZWRdp9WDWSbpnDJc",
    "SAorM9lO1EZ3vs1fnboiyUq3k/SQIDAQABAoIBAA+wjlJJHfPenG9k6O9MUnRXY6gOMpnrpe5rAftBRhOBWYDBac/ulU4PJWdzXuov7XDRSfr1",
    "3ypdzH9U5zmCzOm2AYMFTlPG8hTFLdCsdt4fLQTtcK72UmBBenr3B+86lgXOnGoHdSkQ3fx9NcjvBCfk2I8RGFrREth8ff+tSpa9U3e8L08jJj",
    "Iv1nCVEa2jWXQYbKQ1Dl8lHofiw6i/uOg43ZRWFLC4SN39G5nNTPBY09g7OA47XzeUjaT7pXCkZZfNt9lyKjqFlJ+qsjwX1fEkGsSpnT4VokQ/",
    "pcAES9loQpRRSZiP9Aj0ghVdudJtCq38fvbx2VWML6+qg9SjeRECgYEA+H+THgMOvkEfYaYVZIQT4PORtHgpLaqLy6KQJyF//8iNLBEPc4DzBJ",
    "wmRCXA9ZKf608jrVSgQygtrrU0f6jd/Ulg19VIo8PmRDsn67jyV4iDZ4KhXo8xXHXHaCzOkGsL0C+bTfNGme8DuIeq62E5/Kw0+JjtlTEpdRra",
    "zLX4nkcCgYEA7RW15U6GPy175EU5H6qyHHQx7YjJw5wXHoI04W269MMYpopZ1fBbMl3E2g/G1FD/wfI/wI6buQEr/aJb7OGgNsUrLbJlaTa3c/",
    "iLZ44zqRIsHdAh9ij5yULCAV+g9MHcqKkpiDZR8czKWc7tZZOWS/c0sHOF2LWvyRY0eWWdLe8CgYBPruDm88YLfehpMI+VjsCtFo13WDykFxcC",
    "slsVISnhRFb4dXQF7qh+pu+iVJTeaij7lIH1N7i4MC8N4a827Fhauufh7dOAJ/YzlOCFNuYG6ZBxZbMHFlWWt3G81vlZ1+mO1WUwhrzx6XHA/0",
    "fweFnWywWlXax5da08juLwV72kSwKBgQDY71esBYkDQBwwCEM3vZoSPSP+RH7R9P6WlO/MIfrCwc3JfaisAK2BzZk1KuB1H9SWY5KAID1PMEpP",
    "X4OboexWkV1sB+ORPVbpz8/HJrAQkSc69FpPArlktigM17LQop7E2Vy+XW3nwcqaGKTSoBQTWJSmrF4ZqE27wwyq1BbZkwKBgQDGE6v8sfIatq",
    "z7dd2Fatcbxb0J6ivDVxasDJatunF+T7qKgWZ152UPNurUmmO5AFmhBpxxtRTKuKMalHKYXTW/eIXnUL9e3iloN4P1Bexq61eaXhhzvaBZH897",
    "PVr8qnzd2wpcEaWR0Cs5a3jkQ3G5iyeLTENj3c20/mUQNOr7NA==",
);

/// The same as a JWK.
pub(crate) const RSA_JWK: &[(&str, &str)] = &[
    ("kty", "RSA"),
    (
        "n",
        concat!(
            "5iMuOqOm50fAoWxsaqSnzTn718UFvITrQzSBno22eeTI4w-ApmlEVYMQMRcN1yOAnZtRmrENiRuqlCJLilCVOpwH2eMzK54-jSLB",
            "TzMVAQio6l5Jl287RwoDATuGbpya86kJbusZAt3MDXnT49sp4ONgthFii20v_TY66QpxctMKUEfP8TxfJDzieg-esbJ1Ah0OrHoU",
            "lP0Umbp2_7mPeLoYHnxeOtC2TenVfrEy808-Y_EVC_8az_Rxh4mv8CCYOOgiXAVaBksp8wgA7lfaKDXRdO78PJLCXL49S-wweXZW",
            "Rdp9WDWSbpnDJcSAorM9lO1EZ3vs1fnboiyUq3k_SQ",
        ),
    ),
    ("e", "AQAB"),
    (
        "d",
        concat!(
            "D7COUkkd896cb2To70xSdFdjqA4ymeul7msB-0FGE4FZgMFpz-6VTg8lZ3Ne6i_tcNFJ-vXfKl3Mf1TnOYLM6bYBgwVOU8byFMUt",
            "0Kx23h8tBO1wrvZSYEF6evcH7zqWBc6cagd1KRDd_H01yO8EJ-TYjxEYWtES2Hx9_61Klr1Td7wvTyMmMi_WcJURraNZdBhspDUO",
            "XyUeh-LDqL-46DjdlFYUsLhI3f0bmc1M8FjT2Ds4DjtfN5SNpPulcKRll8232XIqOoWUn6qyPBfV8SQaxKmdPhWiRD-lwARL2WhC",
            "lFFJmI_0CPSCFV250m0Krfx-9vHZVYwvr6qD1KN5EQ",
        ),
    ),
    (
        "p",
        concat!(
            "-H-THgMOvkEfYaYVZIQT4PORtHgpLaqLy6KQJyF__8iNLBEPc4DzBJwmRCXA9ZKf608jrVSgQygtrrU0f6jd_Ulg19VIo8PmRDsn",
            "67jyV4iDZ4KhXo8xXHXHaCzOkGsL0C-bTfNGme8DuIeq62E5_Kw0-JjtlTEpdRrazLX4nkc",
        ),
    ),
    (
        "q",
        concat!(
            "7RW15U6GPy175EU5H6qyHHQx7YjJw5wXHoI04W269MMYpopZ1fBbMl3E2g_G1FD_wfI_wI6buQEr_aJb7OGgNsUrLbJlaTa3c_iL",
            "Z44zqRIsHdAh9ij5yULCAV-g9MHcqKkpiDZR8czKWc7tZZOWS_c0sHOF2LWvyRY0eWWdLe8",
        ),
    ),
    (
        "dp",
        concat!(
            "T67g5vPGC33oaTCPlY7ArRaNd1g8pBcXArJbFSEp4URW-HV0Be6ofqbvolSU3moo-5SB9Te4uDAvDeGvNuxYWrrn4e3TgCf2M5Tg",
            "hTbmBumQcWWzBxZVlrdxvNb5WdfpjtVlMIa88elxwP9H8HhZ1ssFpV2seXWtPI7i8Fe9pEs",
        ),
    ),
    (
        "dq",
        concat!(
            "2O9XrAWJA0AcMAhDN72aEj0j_kR-0fT-lpTvzCH6wsHNyX2orACtgc2ZNSrgdR_UlmOSgCA9TzBKT1-Dm6HsVpFdbAfjkT1W6c_P",
            "xyawEJEnOvRaTwK5ZLYoDNey0KKexNlcvl1t58HKmhik0qAUE1iUpqxeGahNu8MMqtQW2ZM",
        ),
    ),
    (
        "qi",
        concat!(
            "xhOr_LHyGras-3XdhWrXG8W9Ceorw1cWrAyWrbpxfk-6ioFmdedlDzbq1JpjuQBZoQaccbUUyrijGpRymF01v3iF51C_Xt4paDeD",
            "9QXsautXml4Yc72gWR_Pez1a_Kp83dsKXBGlkdArOWt45ENxuYsni0xDY93NtP5lEDTq-zQ",
        ),
    ),
];

/// Another one, PKCS#1.
pub(crate) const OTHER_RSA: &str = concat!(
    "MIIEogIBAAKCAQEAxcwvHuXcpMZUbkFM3bOzbhRKySt+ML++hFUjCcCm8YLI0egIvzhD7doK1nZAow/x9uYW3q8c2l0b6kLzMxVa1S0bvTJj1g",
    "5d2az3kk6zKbtVJphN92CpXUTpLLXCrM/v8dPhwuneqoBQx04kcpvY/DHT9TBLHhPI9h20029GehGO4E58XrAKAOyse1gfIhr8c/3eTgpj3EBk",
    "PbKno7qX7VXKZlLGqL/Co4L22UG8F/sOsxXlAY2oGfOfuWOw/hOlGAFyr3dpJiGTq7wVGsY/Mm007oCpTDva9TsgV7eTq9sajlhCqu+DWUJ9rU",
    "7+EyB3c8K+CKKOSrTbPx0tGepfzwIDAQABAoIBADSAX4uIgNn9yMBhNdltDvXrjfQ6xqqC4rt2a6/1gnp9d/d7awLymNlD9Hd7eOmvXE7oQO7H",
    "tVVivHugXLRU+UC3UfMUsnpJYvDZ3/bmS9kKX+44JA3DCwF2Ppw+/JbpNKvQTU7yy8ce+xID9Fm1c1Fxmmys7mtj3gYx2WL72M2iblpxYYX3tl",
    "Jd6uRCmREVPMeDQwoTZca7Bus2IFgMPgbFzYZcI6paTr4sx5UVmvnB9Tq5kU1lkpMEUPxzSlXY+/ILjYuxYDD24fyF8SOK2TgdZyggIx3JBrIm",
    "Uscda645uAhGxhCAahwDjkfTO5gMq4MZt4yHgutDPI5fGRSklrkCgYEA+bXric/sNKjS9/VCksYWic9/sYpr0ijDMgSNtQpgsKQZK12EOJzlFo",
    "boUUloMMIDeRk87bbmuFXq3dxWUbP/CK+pf3yWj7lJW7rmWNutf3tNAPpgah6W7sBrb21PNEIyEb+l+LMj15E78xX9HxZgV0oxEl91p+N9SDLz",
    "2i9ZIWcCgYEAyseKP45uLevZnHl3CFfGSZ3kVe+QS96j/I5hn20rz3mCX3E11aRWzd06NL9jdWcoK8HwKKEIOjrMLU3qfXLeq73gJj8Z+vOcAc",
    "N3E6XPcUFPu6sVemfh6lAJVEEi3NEai8MFlDr/ohd0hTqMD6K/h1mjDktSAh/8t/gwXc2LRVkCgYBCeCdjfsJMXigSMunuseXr9xzxgHwk7A7R",
    "cJ7b8xA71OKSRYldnH3qmiya/qRKXkqYYJx0Vnxh0xT6y5z6kKQxhrjio6JcTaD2VvDb9FXhmkusF/m0JcJdeUDf30P3ECvNx6sBYYYH6rP/h/",
    "nh3Y31jl0zm89wykBeCJoamQHrvwKBgD+nxglPj9zQhd5t7uTqkO95Jj2n13dJq9bTZ2fhoHgf38JQSqMHVMyJHwWB8xneySh7WAWZD3kgDgpG",
    "xE6fKbFmCKBY/LHfmWCgWJgNXAJki0ARY8uqIqwoddVCIUyKQ7gN/4lZv/fFPym3iFI8N72ocNxC3rqWCgJCYgSASrD5AoGASC91a57skiBI6q",
    "C9kwn/4FesmlWnBFsLcWG96NW98a6BIC0XduWOPcZPwY0Uh6raFnnjD94eOCky9kGSg2RwANoW+yC/awahW6FdpVMYAO8ghnCy6Q9qd3EfYvkE",
    "lfGBFf+c4D6ipMr4dNMtHarWB/0QSPt6NVmBOCnWzazOGHk=",
);

/// A key on P-256, PKCS#8.
pub(crate) const EC: &str = concat!(
    "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgpMVmevJtWqqR8j6rX96CypREAUYLyLK9Mu576Zx9DpihRANCAAQFogNJWWN3ky",
    "Cd422u1KXVOuqhVGD6U19XDjiWLmWOnGRxUukkNPCMkYgXFYii4I4/9+k/9OEEJjm6fKEoJVKI",
);

/// The same as a JWK.
pub(crate) const EC_JWK: &[(&str, &str)] = &[
    ("kty", "EC"),
    ("crv", "P-256"),
    ("x", "BaIDSVljd5MgneNtrtSl1TrqoVRg-lNfVw44li5ljpw"),
    ("y", "ZHFS6SQ08IyRiBcViKLgjj_36T_04QQmObp8oSglUog"),
    ("d", "pMVmevJtWqqR8j6rX96CypREAUYLyLK9Mu576Zx9Dpg"),
];

/// A key on P-384, PKCS#8.
pub(crate) const EC384: &str = concat!(
    "MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDBAUSRlyhwVuKRIHifPdmjArUcfxtVsszOgAxBjJplqmGZ5fYJwcUdFPT3hI3z8F5",
    "GhZANiAARjuO2zlOfhD0R5TtZfoaKpN+FlgGE1kTxchTzuDxLa6wddID1JMJyDU20dbOtbzM0wAtsTjkh7P0x5GOM32vPq/IgS2tVEksy0M5g7",
    "qm9ZkoNmsKKhS3SbbHmWtUG1hik=",
);

/// The same as a JWK.
pub(crate) const EC384_JWK: &[(&str, &str)] = &[
    ("kty", "EC"),
    ("crv", "P-384"),
    ("x", "Y7jts5Tn4Q9EeU7WX6GiqTfhZYBhNZE8XIU87g8S2usHXSA9STCcg1NtHWzrW8zN"),
    ("y", "MALbE45Iez9MeRjjN9rz6vyIEtrVRJLMtDOYO6pvWZKDZrCioUt0m2x5lrVBtYYp"),
    ("d", "QFEkZcocFbikSB4nz3ZowK1HH8bVbLMzoAMQYyaZaphmeX2CcHFHRT094SN8_BeR"),
];

/// An Ed25519 key, PKCS#8.
pub(crate) const ED: &str = "MC4CAQAwBQYDK2VwBCIEIEa0btX0SbM3LkJQS/waHH3DUskUIzg8qKgS4cv+39cQ";

/// The same as a JWK.
pub(crate) const ED_JWK: &[(&str, &str)] = &[
    ("kty", "OKP"),
    ("crv", "Ed25519"),
    ("x", "dMTOVTfAmfRhbsk-jIp3ydULzCP04e2Yufe8HiU46Lk"),
    ("d", "RrRu1fRJszcuQlBL_BocfcNSyRQjODyoqBLhy_7f1xA"),
];
