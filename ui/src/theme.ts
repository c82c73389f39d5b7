import { beginTheme } from "./lib/theme";

beginTheme();
